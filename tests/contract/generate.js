// Random and hostile requests, made from the documents: their names are used correctly and wrongly.

import fc from 'fast-check';

import { operationsOf } from './outcomes.js';
import { resolve } from './spec.js';

const PATHS = [
  '',
  'h',
  'h/a',
  'h/b',
  'h/a/b',
  'zookeeper',
  'zookeeper/config',
  'zookeeper/quota',
  'h%2Fa',
  'h/%C3%A4',
  '%F0%9F%98%80',
];
const BAD_PATHS = [
  'h//a',
  'h/',
  'h/..',
  '.',
  '%00',
  'h%0a',
  '%ff',
  '%',
  '%zz',
  'h%',
  'x'.repeat(300),
  '%c0%af',
  'a?b=%',
  '{path}',
  '%2e%2e',
];
const JUNK = [
  '',
  '0',
  '-1',
  '1',
  'true',
  'null',
  '%',
  '%00',
  '9999999999999999999',
  '2147483648',
  '1e3',
  '0x',
  '*',
  '"',
  'd1.0',
  '"d1.0"',
  '"',
  'W/"x"',
  'a,b',
  '[]',
  '{}',
  'x'.repeat(400),
  'wait=1',
  'wait=99999999999',
  'open',
  'world:anyone:r',
  'data',
  'utf8',
];
const UUIDS = ['0b8f2c1e-5d6a-4c8e-9f10-2a3b4c5d6e7f', '00000000-0000-4000-8000-000000000000'];
const HEADERS = [
  'Zk-Session',
  'Zk-Min-Zxid',
  'Zk-History',
  'traceparent',
  'Zk-Acl',
  'Idempotency-Key',
  'If-Match',
  'If-None-Match',
  'Last-Event-ID',
  'Accept',
  'Content-Type',
  'Authorization',
  'Origin',
  'Host',
  'X-Any',
  'Range',
  'Expect',
  'Cookie',
  'Accept-Encoding',
  'Content-Encoding',
  'TE',
];
const TYPES = [
  'application/json',
  'application/octet-stream',
  'text/plain',
  'application/x-www-form-urlencoded',
  'application/json; charset=utf-8',
  '*/*',
  'text/event-stream',
  'application/x-ndjson',
  'text/html',
  '',
];

const junk = fc.oneof(fc.constantFrom(...JUNK, ...UUIDS), fc.string({ maxLength: 20 }));

function encode(text) {
  return text.isWellFormed() ? encodeURIComponent(text) : '%ED%A0%80';
}

/** A value that mostly fits its schema. */
function valueOf(document, schema) {
  const found = resolve(document, schema);
  const choices = [junk];
  if (found.enum) {
    choices.push(
      fc.constantFrom(...found.enum.map(String)),
      fc.constantFrom(...found.enum.map(String)),
    );
  }
  if (found.const !== undefined) {
    choices.push(fc.constant(String(found.const)));
  }
  if (found.type === 'integer') {
    choices.push(
      fc.integer({ min: -2, max: 6 }).map(String),
      fc.constantFrom(found.minimum ?? -1, found.maximum ?? 1).map(String),
    );
  }
  return fc.oneof(...choices);
}

/** Any JSON; not deep. */
const anyJson = fc.jsonValue({ maxDepth: 3 });
const nodePath = fc.constantFrom(
  '/',
  '/h',
  '/h/a',
  '/h/b',
  '/h/a/b',
  '/zookeeper',
  'h',
  '',
  '/h/',
  '/h//a',
  '/..',
  '/\u0000',
  '/ä',
);
const acl = fc.oneof(
  fc.constantFrom('open', 'read', 'creator', 'none'),
  anyJson,
  fc.array(
    fc.record({
      perms: fc.array(fc.constantFrom('read', 'all', 'admin', 'fly'), { maxLength: 3 }),
      scheme: fc.constantFrom('world', 'auth', 'digest', 'ip', 'x'),
      id: fc.constantFrom('anyone', '', '127.0.0.1/8', 'bob:x'),
    }),
    { maxLength: 3 },
  ),
);

const MEMBERS = {
  path: nodePath,
  acl,
  data64: fc.oneof(fc.constantFrom('', 'eA==', 'x', '===='), anyJson),
  dataUtf8: fc.oneof(fc.string({ maxLength: 30 }), anyJson),
  dataJson: anyJson,
  watch: fc.oneof(fc.boolean(), fc.integer({ min: 0, max: 20 })),
  since: fc.oneof(fc.constantFrom('0x1', '0x0', 'x', '1:1'), fc.integer({ min: -1, max: 9 })),
  session: fc.constantFrom(...UUIDS, 'x', ''),
  kind: fc.constantFrom('data', 'exists', 'children', 'persistent', 'recursive', 'x'),
  mode: fc.constantFrom('recursive', 'data'),
  with: fc.constantFrom('names', 'stat', 'data', 'x'),
  dataformat: fc.constantFrom('base64', 'utf8', 'auto', 'json', 'none', 'x'),
  consistency: fc.constantFrom('local', 'linearizable', 'x'),
  min_zxid: fc.constantFrom('0x1', 1, 'x', -1),
  traceparent: fc.constantFrom(
    '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
    'x',
    7,
  ),
  key: fc.oneof(fc.uuid(), fc.constantFrom('', 'k', 7)),
  version: fc.integer({ min: -2, max: 3 }),
  aversion: fc.integer({ min: -2, max: 3 }),
  scheme: fc.constantFrom('digest', 'ip', ''),
  credential: fc.constantFrom('bob:secret', 'bob', ''),
};
const FLAGS = [
  'null',
  'upsert',
  'parents',
  'ephemeral',
  'sequence',
  'container',
  'recursive',
  'values',
];
const NUMBERS = ['limit', 'depth', 'max', 'ttl', 'timeout_ms', 'expire'];

const operand = fc.record(
  {
    ...MEMBERS,
    ...Object.fromEntries(
      FLAGS.map((name) => [name, fc.oneof({ weight: 5, arbitrary: fc.boolean() }, anyJson)]),
    ),
    ...Object.fromEntries(
      NUMBERS.map((name) => [
        name,
        fc.oneof({ weight: 5, arbitrary: fc.integer({ min: -1, max: 5000 }) }, anyJson),
      ]),
    ),
    colour: anyJson,
  },
  { requiredKeys: [] },
);

/** A few members: a message with all of them would be refused for the first one. */
const members = fc
  .tuple(
    operand,
    fc.array(fc.constantFrom('path', ...Object.keys(MEMBERS), ...FLAGS, ...NUMBERS), {
      maxLength: 4,
    }),
  )
  .map(([all, names]) =>
    Object.fromEntries(
      Object.entries(all).filter(([name]) => name === 'path' || names.includes(name)),
    ),
  );

const element = fc
  .tuple(
    fc.constantFrom(
      'create',
      'set',
      'delete',
      'check',
      'get',
      'exists',
      'stat',
      'children',
      'sync',
      'x',
    ),
    members,
  )
  .map(([op, rest]) => ({ op, ...rest }));
const multi = fc.record({
  ops: fc.oneof({ weight: 5, arbitrary: fc.array(element, { maxLength: 4 }) }, anyJson),
});
const body = fc.oneof(
  fc.constant(undefined),
  fc.string({ maxLength: 60 }).map((text) => Buffer.from(text)),
  fc.uint8Array({ maxLength: 60 }).map((bytes) => Buffer.from(bytes)),
  fc.constantFrom(4096, 4097, 20000).map((size) => Buffer.alloc(size, 0x20)),
  fc.oneof(members, multi, element, anyJson).map((value) => Buffer.from(JSON.stringify(value))),
  fc.integer({ min: 1, max: 100 }).map((depth) => Buffer.from('['.repeat(depth))),
);

function header(document, parameters) {
  const named = parameters
    .filter((one) => one.in === 'header')
    .map((one) => valueOf(document, one.schema).map((value) => `${one.name}: ${value}`));
  const types = fc
    .tuple(fc.constantFrom('Accept', 'Content-Type'), fc.constantFrom(...TYPES))
    .map((pair) => pair.join(': '));
  const any = fc.tuple(fc.constantFrom(...HEADERS), junk).map((pair) => pair.join(': '));
  return fc.oneof(...named, types, types, any);
}

/** One line without line ends: rawHeads makes those. */
function clean(line) {
  return [...line].filter((char) => char >= ' ' && char <= '~').join('');
}

function targetOf(path, segment, query) {
  const place = path.replace('{path}', segment).replace('{id}', segment);
  const text = query.map(([name, value]) => `${encode(name)}=${encode(value)}`).join('&');
  return text ? `${place}?${text}` : place;
}

function requestOf(document, { method, path, operation }) {
  const parameters = [
    ...(document.paths[path].parameters ?? []),
    ...(operation.parameters ?? []),
  ].map((one) => resolve(document, one));
  const named = parameters
    .filter((one) => one.in === 'query')
    .map((one) => fc.tuple(fc.constant(one.name), valueOf(document, one.schema)));
  const parameter = fc.oneof(
    { weight: 12, arbitrary: named.length > 0 ? fc.oneof(...named) : fc.tuple(junk, junk) },
    { weight: 1, arbitrary: fc.tuple(junk, junk) },
  );
  const segment = fc.oneof(
    { weight: 6, arbitrary: fc.constantFrom(...PATHS) },
    { weight: 1, arbitrary: fc.constantFrom(...BAD_PATHS, ...UUIDS) },
  );
  return fc.record({
    method: fc.oneof(
      { weight: 40, arbitrary: fc.constant(method) },
      { weight: 1, arbitrary: fc.constantFrom('FOO', 'TRACE', 'CONNECT', 'get', 'HEAD') },
    ),
    target: fc
      .tuple(segment, fc.array(parameter, { maxLength: 4 }))
      .map(([place, query]) => targetOf(path, place, query)),
    headers: fc.array(header(document, parameters).map(clean), { maxLength: 3 }),
    body: operation.requestBody
      ? body
      : fc.oneof({ weight: 9, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: body }),
    replica: fc.nat(2),
  });
}

export function requests(document) {
  return fc.oneof(...operationsOf(document).map((operation) => requestOf(document, operation)));
}

/** Messages for a socket; the sender adds ids. */
export function messages(document) {
  const ops = Object.entries(document.operations)
    .filter(([, { action }]) => action === 'receive')
    .map(([name]) => name);
  const op = fc.oneof(
    { weight: 20, arbitrary: fc.constantFrom(...ops) },
    { weight: 1, arbitrary: fc.oneof(fc.constantFrom('check', 'reap', 'expire', ''), anyJson) },
  );
  return fc
    .tuple(op, members, multi)
    .map(([name, rest, list]) => ({ ...(name === 'multi' ? list : rest), op: name }));
}

/** What a client of HTTP/2 sends first. */
export const HTTP2_HEAD = 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n';

const HEAD_PARTS = [
  'GET',
  ' ',
  '/',
  '/znodes/v1/',
  ' HTTP/1.1',
  ' HTTP/1.0',
  ' HTTP/2.0',
  '\r\n',
  '\n',
  '\r',
  ':',
  'Host: localhost',
  'Host: a',
  'Content-Length: 5',
  'Content-Length: 6',
  'Content-Length: -1',
  'Transfer-Encoding: chunked',
  'Transfer-Encoding: gzip',
  '5\r\nhello\r\n',
  '0\r\n\r\n',
  'hello',
  '\t',
  '\u0000',
  '\u007f',
  HTTP2_HEAD,
  'X-A : b',
  ' folded',
  'Expect: 100-continue',
  'Connection: close',
  'Upgrade: websocket',
  '\r\n\r\n',
  'x'.repeat(9000),
];

/** Bytes that may be a request, sent at once. */
export function rawHeads() {
  const part = fc.oneof(
    { weight: 9, arbitrary: fc.constantFrom(...HEAD_PARTS) },
    { weight: 1, arbitrary: fc.string({ maxLength: 10 }) },
  );
  const any = fc.array(part, { minLength: 1, maxLength: 12 }).map((parts) => parts.join(''));
  const framed = fc
    .array(part, { maxLength: 8 })
    .map((parts) => `GET /livez HTTP/1.1\r\nHost: localhost\r\n${parts.join('')}`);
  return fc.oneof(any, framed).map((text) => Buffer.from(`${text}\r\n\r\n\r\n`, 'latin1'));
}
