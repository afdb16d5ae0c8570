// Lists which outcomes of the contract were seen, and which were not.

import { readFileSync } from 'node:fs';

import { resolve } from './spec.js';

/** The outcomes of REST: "METHOD /path status code", a code for each example of a problem. */
function* restOutcomes(document) {
  for (const [path, item] of Object.entries(document.paths)) {
    for (const [method, operation] of Object.entries(item)) {
      if (method === 'parameters' || method === 'head') {
        continue;
      }
      for (const status of Object.keys(operation.responses)) {
        yield* outcomesOf(document, `${method.toUpperCase()} ${path}`, operation, status);
      }
    }
  }
  for (const [status, { codes }] of Object.entries(document['x-anywhere'])) {
    yield* (codes ?? []).map((code) => `anywhere ${status} ${code}`);
  }
}

function* outcomesOf(document, place, operation, status) {
  const problem = resolve(document, operation.responses[status]).content?.[
    'application/problem+json'
  ];
  const rows = Object.values(operation['x-rows']?.rows ?? {});
  if (Number(status) >= 400 && problem) {
    yield* Object.keys(problem.examples).map((code) => `${place} ${status} ${code}`);
  } else if (status === '200' && rows.length > 0) {
    yield* rows.map((row) => `${place} ${status} ${row.name}`);
  } else {
    yield `${place} ${status}`;
  }
}

function* messageOutcomes(document) {
  for (const name of Object.keys(document.channels.socket.messages)) {
    if (name.endsWith('Reply') || name.endsWith('Event')) {
      yield `socket ${name}`;
    }
  }
  yield* Object.keys(document.channels.stream.messages).map(
    (name) => `stream ${{ begin: 'watch', change: 'NodeDataChanged' }[name] ?? name}`,
  );
  yield* Object.keys(document.channels.socket['x-close-codes']).map((code) => `closed ${code}`);
}

/** Outcomes at one of two URLs of the same resource count for both. */
function sameResource(outcome) {
  return outcome.replace(/^HEAD /, 'GET ').replace(/\/\{(path|id)\}/, '');
}

function wasSeen(outcome, seen) {
  const key = sameResource(outcome);
  return seen.has(key) || [...seen].some((one) => one.startsWith(`${key} `));
}

export function unseen(openapi, asyncapi, covered) {
  const seen = new Set([...covered].map(sameResource));
  const wanted = new Set(
    [...restOutcomes(openapi), ...messageOutcomes(asyncapi)].map(sameResource),
  );
  return [...wanted].filter((outcome) => !wasSeen(outcome, seen));
}

/** The reasons of outcomes that need not be seen: lines "pattern: reason"; `*` is any text. */
export function readReasons(file) {
  return readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => line && !line.startsWith('#'))
    .map((line) => {
      const [pattern, reason] = line.split(/: (.*)/);
      const escaped = pattern
        .trim()
        .replace(/[.+?^${}()|[\]\\]/g, '\\$&')
        .replaceAll('*', '.*');
      return { pattern, reason, matches: new RegExp(`^${escaped}$`) };
    });
}
