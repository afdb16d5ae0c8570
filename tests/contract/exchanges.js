// Compares all answers to the clients of tests with the contract, and lists outcomes that were
// never seen. The records are those of tests/lib/exchange.c and hostile.js, in the directory
// ZABRA_EXCHANGES.

import { readFileSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';

import { Contract, parseHead } from './check.js';
import { readReasons, unseen } from './report.js';
import { readDocument, readFacts } from './spec.js';

const SKIPPED = 77;
const directory = process.env.ZABRA_EXCHANGES;
const complaints = new Map();
const covered = new Map();
let count = 0;

function text(value) {
  return Buffer.from(value ?? '', 'base64');
}

function checkHttp(contract, note) {
  const { status, headers } = parseHead(text(note.head).toString());
  return contract.checkHttp({
    method: note.method,
    target: text(note.target).toString(),
    headers: text(note.headers).toString(),
    body: text(note.body),
    status,
    answerHeaders: headers,
    answer: text(note.answer),
    stream: note.kind === 'stream',
  });
}

/** Requests are checked if they have succeeded. */
function checkReceived(contract, note, sent) {
  const result = contract.checkReceived(text(note.text), note.op);
  const message = JSON.parse(text(note.text));
  const request = sent.get(`${note.socket} ${message.id}`);
  if (message.ok === true && request) {
    result.errors.push(...contract.checkSent(text(request.text), request.op).errors);
  }
  return result;
}

function check(contract, note, sent) {
  switch (note.kind) {
    case 'http':
    case 'stream':
      return checkHttp(contract, note);
    case 'event':
      return contract.checkEvent(text(note.text), note.name, note.id);
    case 'received':
      return checkReceived(contract, note, sent);
    case 'closed':
      return contract.checkClosed(note.code);
    case 'sent':
      sent.set(`${note.socket} ${parseId(note)}`, note);
      return { errors: [], covered: '' };
    default:
      throw new Error(`unknown kind of record: ${note.kind}`);
  }
}

function parseId(note) {
  try {
    return JSON.parse(text(note.text)).id;
  } catch {
    return undefined;
  }
}

function readFile(contract, name) {
  const sent = new Map();
  for (const line of readFileSync(join(directory, name), 'utf8').split('\n').filter(Boolean)) {
    const note = JSON.parse(line);
    const result = check(contract, note, sent);
    count += 1;
    for (const error of result.errors) {
      const known = complaints.get(error) ?? { times: 0, file: name, line };
      complaints.set(error, { ...known, times: known.times + 1 });
    }
    if (result.covered && result.errors.length === 0) {
      covered.set(result.covered, (covered.get(result.covered) ?? 0) + 1);
    }
  }
}

function describeNote(line) {
  const note = JSON.parse(line);
  const parts = ['target', 'head', 'answer', 'text'].filter((key) => note[key] !== undefined);
  return parts.map((key) => text(note[key]).toString().slice(0, 400)).join('\n    ');
}

function report(contract) {
  for (const [error, { times, file, line }] of complaints) {
    console.log(`${error} (${times} times, first in ${file})\n    ${describeNote(line)}`);
  }
  const reasons = readReasons('unseen.txt');
  const missing = unseen(contract.openapi, contract.asyncapi, covered.keys());
  const bare = missing.filter((outcome) => !reasons.some(({ matches }) => matches.test(outcome)));
  const idle = reasons.filter(({ matches }) => !missing.some((outcome) => matches.test(outcome)));
  console.log(
    `${count} exchanges, ${covered.size} outcomes seen, ${missing.length} not: ` +
      `${missing.length - bare.length} for a reason`,
  );
  bare.forEach((outcome) => console.log(`never seen: ${outcome}`));
  idle.forEach(({ pattern }) =>
    console.log(`was seen, but has a reason in unseen.txt: ${pattern}`),
  );
  return complaints.size === 0 && (bare.length === 0 || process.argv.includes('--part'));
}

/** Records of another build of the server do not count for this one. */
function isCurrent(name) {
  const current =
    statSync(join(directory, name)).mtimeMs >= statSync(process.env.ZABRA_BINARY).mtimeMs;
  if (!current) {
    console.log(`${name} is older than the server and not checked: run its test again`);
  }
  return current;
}

const files = readdirSync(directory)
  .filter((name) => name.endsWith('.ndjson'))
  .sort()
  .filter(isCurrent);
if (files.length === 0) {
  console.log(`there is no record in ${directory}: run the tests with the label proc first`);
  process.exit(SKIPPED);
}
const contract = new Contract(readDocument('openapi'), readDocument('asyncapi'), readFacts());
files.forEach((name) => readFile(contract, name));
process.exit(report(contract) ? 0 : 1);
