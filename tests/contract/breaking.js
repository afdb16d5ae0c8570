// Finds changes that would break clients of an earlier contract: compares with the documents of the
// last tag, or of the named revision. Without a tag there are no such clients.
//
//   ./run breaking.js [REVISION]

import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import assert from 'node:assert/strict';

import { breaksOf } from './compare.js';
import { readDocument } from './spec.js';

const top = join(import.meta.dirname, '../..');

function git(...args) {
  const { status, stdout } = spawnSync('git', ['-C', top, ...args], {
    encoding: 'utf8',
    maxBuffer: 1 << 26,
  });
  return status === 0 ? stdout.trim() : undefined;
}

/** The documents of the revision, made by its own bundle.py. */
function documentsOf(revision) {
  const directory = mkdtempSync(join(tmpdir(), 'zabra-breaking-'));
  try {
    const archive = execFileSync('git', ['-C', top, 'archive', revision, 'openapi'], {
      maxBuffer: 1 << 26,
    });
    execFileSync('tar', ['-x', '-C', directory], { input: archive });
    return ['openapi', 'asyncapi'].map((name) => {
      const output = join(directory, `${name}.json`);
      execFileSync('python3', [
        '-B',
        join(directory, 'openapi/bundle.py'),
        join(directory, 'openapi', `${name}.yaml`),
        output,
      ]);
      return JSON.parse(execFileSync('cat', [output], { encoding: 'utf8', maxBuffer: 1 << 26 }));
    });
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

// ---- The comparison itself, on made-up pairs ----

const text = { type: 'string' };

function rest(operation, more = {}) {
  return {
    openapi: '3.1.0',
    paths: {
      '/a': {
        get: {
          parameters: [],
          responses: { 200: { content: { 'application/json': { schema: text } } } },
          ...operation,
        },
      },
    },
    components: { schemas: {} },
    ...more,
  };
}

function answer(schema, headers = {}) {
  return rest({ responses: { 200: { headers, content: { 'application/json': { schema } } } } });
}

const object = (properties, required = []) => ({ type: 'object', properties, required });
const query = (name, more = {}) => ({ in: 'query', name, schema: text, ...more });

const PAIRS = [
  ['nothing', rest(), rest(), 0],
  ['a path is gone', rest(), { ...rest(), paths: {} }, 1],
  ['a path is new', { ...rest(), paths: {} }, rest(), 0],
  ['a method is gone', rest(), { ...rest(), paths: { '/a': {} } }, 1],
  ['a parameter is gone', rest({ parameters: [query('x')] }), rest(), 1],
  ['a parameter is new', rest(), rest({ parameters: [query('x')] }), 0],
  [
    'a parameter is required now',
    rest(),
    rest({ parameters: [query('x', { required: true })] }),
    1,
  ],
  [
    'a parameter takes less',
    rest({ parameters: [query('x', { schema: { enum: ['a', 'b'] } })] }),
    rest({ parameters: [query('x', { schema: { enum: ['a'] } })] }),
    1,
  ],
  [
    'a parameter takes more',
    rest({ parameters: [query('x', { schema: { enum: ['a'] } })] }),
    rest({ parameters: [query('x', { schema: { enum: ['a', 'b'] } })] }),
    0,
  ],
  [
    'a bound is narrower',
    rest({ parameters: [query('x', { schema: { type: 'integer', maximum: 9 } })] }),
    rest({ parameters: [query('x', { schema: { type: 'integer', maximum: 8 } })] }),
    1,
  ],
  ['a success is another one', rest(), rest({ responses: { 204: {} } }), 2],
  [
    'an error is new',
    rest(),
    rest({ responses: { ...rest().paths['/a'].get.responses, 404: {} } }),
    0,
  ],
  ['a header is gone', answer(text, { ETag: { required: true, schema: text } }), answer(text), 1],
  [
    'a header may be missing',
    answer(text, { ETag: { required: true, schema: text } }),
    answer(text, { ETag: { schema: text } }),
    1,
  ],
  [
    'a member is gone',
    answer(object({ a: text, b: text }, ['a', 'b'])),
    answer(object({ a: text }, ['a'])),
    1,
  ],
  ['a member may be missing', answer(object({ a: text }, ['a'])), answer(object({ a: text })), 1],
  [
    'a member is new',
    answer(object({ a: text }, ['a'])),
    answer(object({ a: text, b: text }, ['a', 'b'])),
    0,
  ],
  [
    'a member has another type',
    answer(object({ a: text }, ['a'])),
    answer(object({ a: { type: 'integer' } }, ['a'])),
    1,
  ],
  ['an answer has a new word', answer({ enum: ['a'] }), answer({ enum: ['a', 'b'] }), 1],
  [
    'the same behind a reference',
    answer({ $ref: '#/components/schemas/X' }, {}),
    { ...answer({ $ref: '#/components/schemas/X' }), components: { schemas: { X: object({}) } } },
    0,
  ],
];
PAIRS.at(-1)[1].components = { schemas: { X: object({}) } };

for (const [name, before, after, count] of PAIRS) {
  assert.equal(breaksOf(before, after).length, count, name);
}

// ---- Against the last tag ----

const revision = process.argv[2] ?? git('describe', '--tags', '--abbrev=0');
if (!revision) {
  console.log(
    `${PAIRS.length} made-up pairs have the expected result; there is no tag to compare with`,
  );
  process.exit(0);
}
if (git('cat-file', '-t', `${revision}:openapi/openapi.yaml`) !== 'blob') {
  console.log(`${revision} has no contract`);
  process.exit(0);
}
const [openapi, asyncapi] = documentsOf(revision);
const breaks = [
  ...breaksOf(openapi, readDocument('openapi')),
  ...breaksOf(asyncapi, readDocument('asyncapi')),
];
breaks.forEach((line) => console.log(line));
console.log(
  `${PAIRS.length} made-up pairs have the expected result; ${breaks.length} breaks since ${revision}`,
);
process.exit(breaks.length === 0 ? 0 : 1);
