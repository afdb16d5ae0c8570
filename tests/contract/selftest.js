// Tests the validator: each kind of deviation is caught, and correct exchanges pass.

import assert from 'node:assert/strict';

import { Contract, parseHead } from './check.js';
import { readReasons, unseen } from './report.js';

const contract = new Contract();
const vary = contract.openapi.components.headers.Vary.schema.const;
const stat = {
  czxid: 1,
  czxidHex: '0x1',
  mzxid: 1,
  mzxidHex: '0x1',
  ctime: 1,
  mtime: 1,
  version: 0,
  cversion: 0,
  aversion: 0,
  ephemeralOwner: 0,
  ephemeralOwnerHex: '0x0',
  dataLength: 1,
  numChildren: 0,
  pzxid: 1,
  pzxidHex: '0x1',
};
const znode = { path: '/a', uri: 'http://127.0.0.1:9998/znodes/v1/a', data64: 'eA==', ...stat };
const head = [
  'HTTP/1.1 200 OK',
  'Content-Type: application/json',
  'ETag: "d1.0"',
  'Cache-Control: no-cache',
  'X-Content-Type-Options: nosniff',
  'Zk-Zxid: 0x1',
  'Zk-History: 00000000000000ff',
  `Vary: ${vary}`,
  'Content-Length: 9',
];
const problem = {
  type: 'urn:zabra:problem:NoNode',
  title: 'znode does not exist',
  status: 404,
  detail: 'znode does not exist',
  code: 'NoNode',
  zk_code: -101,
  outcome: 'not-applied',
  zxid: 1,
  zxidHex: '0x1',
  instance: 'urn:zabra:request:1',
  path: '/a',
  message: '/a not found',
};
const problemHead = [
  'HTTP/1.1 404 Not Found',
  'Content-Type: application/problem+json',
  'Cache-Control: no-store',
  'X-Content-Type-Options: nosniff',
  'Zk-Zxid: 0x1',
  'Zk-History: 00000000000000ff',
  `Vary: ${vary}`,
];

function exchange({
  lines = head,
  body = znode,
  method = 'GET',
  target = '/znodes/v1/a',
  headers = '',
  sent = '',
} = {}) {
  const { status, headers: answerHeaders } = parseHead(lines.join('\r\n'));
  const answer = Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));
  return contract.checkHttp({
    method,
    target,
    headers,
    body: Buffer.from(sent),
    status,
    answerHeaders,
    answer,
  });
}

function without(lines, name) {
  return lines.filter((line) => !line.startsWith(`${name}:`));
}

function replaced(lines, from, to) {
  return lines.map((line) => line.replace(from, to));
}

let count = 0;

function passes(name, result) {
  count += 1;
  assert.deepEqual(result.errors, [], name);
}

function caught(name, result, pattern) {
  count += 1;
  assert.match(result.errors.join('\n'), pattern, name);
}

// ---- REST ----

passes('a znode', exchange());
passes('no data', exchange({ body: { ...znode, data64: undefined } }));
passes(
  'a slash in the path',
  exchange({
    target: '/znodes/v1/a/b%2Fc?dataformat=utf8',
    body: { ...znode, data64: undefined, dataUtf8: 'x' },
  }),
);
passes('a problem', exchange({ lines: problemHead, body: problem }));
passes(
  'nothing there',
  exchange({
    target: '/nothing',
    lines: problemHead,
    body: { ...problem, code: 'NotFound', type: 'urn:zabra:problem:NotFound' },
  }),
);
passes('HEAD', exchange({ method: 'HEAD', body: '' }));

caught('an extra member', exchange({ body: { ...znode, colour: 'red' } }), /unevaluated.*colour/);
caught(
  'an extra member inside',
  exchange({
    target: '/znodes/v1/a?view=acl',
    lines: replaced(head, '"d1.0"', '"a1.0"'),
    body: {
      path: '/a',
      uri: znode.uri,
      acl: [{ perms: ['read'], scheme: 'world', id: 'anyone', name: 'x' }],
      aversion: 0,
      stat,
    },
  }),
  /name/,
);
caught(
  'an extra member of a problem',
  exchange({ lines: problemHead, body: { ...problem, hint: 'x' } }),
  /hint/,
);
caught('a missing member', exchange({ body: { ...znode, pzxidHex: undefined } }), /pzxidHex/);
caught('a wrong type', exchange({ body: { ...znode, version: '0' } }), /version must be integer/);
caught('two forms of data', exchange({ body: { ...znode, dataUtf8: 'x' } }), /must NOT be valid/);
caught(
  'a stat where data was asked for',
  exchange({ target: '/znodes/v1/a?view=children' }),
  /children/,
);
caught('no JSON', exchange({ body: '{' }), /not JSON/);

caught('a missing header', exchange({ lines: without(head, 'Zk-Zxid') }), /zk-zxid is missing/);
caught('a missing ETag', exchange({ lines: without(head, 'ETag') }), /ETag is missing/);
caught(
  'the ETag of something else',
  exchange({ lines: replaced(head, '"d1.0"', '"s1.1.1.0"') }),
  /the ETag is "s/,
);
caught(
  'a missing header of JSON',
  exchange({ lines: without(head, 'Cache-Control') }),
  /cache-control is missing/,
);
caught(
  'a wrong header',
  exchange({ lines: replaced(head, '0x1', '1') }),
  /zk-zxid: the value must match/,
);
caught(
  'an extra header',
  exchange({ lines: [...head, 'X-Powered-By: zabra'] }),
  /x-powered-by is not in the contract/,
);
caught(
  'no Retry-After',
  exchange({
    lines: replaced(problemHead, '404 Not Found', '503 -'),
    body: {
      ...problem,
      status: 503,
      code: 'NotReady',
      type: 'urn:zabra:problem:NotReady',
      retry_after_ms: 1000,
    },
  }),
  /retry-after is missing/,
);

caught(
  'an extra header of an error that may also come before',
  exchange({
    lines: [...replaced(problemHead, '404 Not Found', '421 -'), 'ETag: "d1.0"'],
    body: { ...problem, status: 421, code: 'Misdirected', type: 'urn:zabra:problem:Misdirected' },
  }),
  /etag is not in the contract/,
);
caught(
  'a wrong status',
  exchange({ lines: replaced(head, '200 OK', '202 Accepted') }),
  /no answer 202/,
);
caught(
  'a status of another operation',
  exchange({
    lines: replaced(problemHead, '404 Not Found', '507 -'),
    body: { ...problem, status: 507 },
  }),
  /no answer 507/,
);
caught(
  'a wrong code',
  exchange({
    lines: problemHead,
    body: { ...problem, code: 'NodeExists', type: 'urn:zabra:problem:NodeExists' },
  }),
  /code/,
);
caught(
  'a code that does not fit its type',
  exchange({ lines: problemHead, body: { ...problem, type: 'urn:zabra:problem:NoAuth' } }),
  /type does not fit/,
);
caught(
  'another status inside',
  exchange({ lines: problemHead, body: { ...problem, status: 409 } }),
  /status/,
);
caught(
  'a wrong type of body',
  exchange({ lines: replaced(head, 'application/json', 'text/xml') }),
  /text\/xml is not in the contract/,
);
caught(
  'a body that should not be',
  exchange({ lines: ['HTTP/1.1 204 -', ...head.slice(2)], method: 'DELETE', body: 'x' }),
  /there is a body/,
);

caught(
  'an unwritten parameter',
  exchange({ target: '/znodes/v1/a?colour=red' }),
  /colour is not in the contract/,
);
caught(
  'a wrong parameter',
  exchange({
    target: '/znodes/v1/a?view=children&limit=0',
    lines: without(head, 'ETag'),
    body: {
      path: '/a',
      uri: znode.uri,
      child_uri_template: '/{child}',
      children: [],
      more: false,
      stat,
    },
  }),
  /limit=0/,
);
caught(
  'a wrong request',
  exchange({
    method: 'POST',
    target: '/znodes/v1/?op=create',
    headers: 'Content-Type: application/json',
    lines: ['HTTP/1.1 201 -', ...head.slice(1), 'Location: http://x/y'],
    body: { ...znode, data64: undefined },
    sent: '{"path":"/a","ttl":0}',
  }),
  /request: \/ttl/,
);

/** A create of /NAME whose answer has no Location. */
function unlocated(name, more = {}) {
  return exchange({
    method: 'POST',
    target: `/znodes/v1/?name=${encodeURIComponent(name)}`,
    lines: ['HTTP/1.1 201 -', ...head.slice(1)],
    body: { ...znode, path: `/${name}`, data64: undefined },
    ...more,
  });
}

caught('a create without a Location', unlocated('a'), /location is missing/);
caught('a long one without a Location', unlocated('a'.repeat(1900)), /location is missing/);
passes('a Location that would be too long', unlocated('a'.repeat(2048)));
passes('a Location that would be too long when it is encoded', unlocated('\u00e4'.repeat(400)));
passes(
  'a Location beside a head that leaves no room for it',
  unlocated('a'.repeat(1500), { headers: Array(110).fill('a: b').join('\r\n') }),
);
caught(
  'a short Location beside the same head',
  unlocated('a', { headers: Array(110).fill('a: b').join('\r\n') }),
  /location is missing/,
);

// ---- Messages and events ----

function received(message, op = '') {
  return contract.checkReceived(Buffer.from(JSON.stringify(message)), op);
}

function imported(...lines) {
  return exchange({
    method: 'POST',
    target: '/import/v1/app?conflict=skip',
    headers: 'Content-Type: application/x-ndjson',
    sent: lines.map((line) => `${JSON.stringify(line)}\n`).join(''),
    lines: without(head, 'ETag'),
    body: { dryRun: false, lines: 1, created: 1, overwritten: 0, skipped: 0, multis: 1 },
  });
}

function exported(...lines) {
  return exchange({
    target: '/export/v1/app',
    lines: replaced(without(head, 'ETag'), 'application/json', 'application/x-ndjson'),
    body: lines.map((line) => `${JSON.stringify(line)}\n`).join(''),
  });
}

const begin = { export: 1, path: '/app', zxid: '0x1', history: '00000000000000ff' };
const end = { end: true, znodes: 1, skippedEphemerals: 0, skippedUnreadable: 0, maskedAcls: 0 };

passes('lines of an import', imported(begin, { path: '' }, { path: 'a/b', dataUtf8: 'x' }, end));
passes('lines by hand', imported({ path: 'a', data64: '', ttl: 5, acl: 'read', stat: {} }));
caught('a full path in an import', imported({ path: '/app/a' }), /line: .*pattern/);
caught('an ephemeral in an import', imported({ path: 'a', ephemeral: true }), /ephemeral/);
passes('lines of an export', exported(begin, end));
caught('an extra member of a line', exported(begin, { ...end, colour: 'red' }), /colour/);

passes('a reply', received({ id: 1, ok: true, zxid: '0x1' }, 'ping'));
passes(
  'an event',
  received({ event: 'NodeCreated', watches: [1], path: '/a', zxid: '0x1', end: true }),
);
caught(
  'an extra member of a reply',
  received({ id: 1, ok: true, zxid: '0x1', more: 1 }, 'ping'),
  /more/,
);
caught('the reply to something else', received({ id: 1, ok: true, zxid: '0x1' }, 'get'), /stat/);
caught('a number where there is hex', received({ event: 'heartbeat', zxid: 1 }), /zxid/);
caught(
  'an event without watches',
  received({ event: 'NodeCreated', path: '/a', zxid: '0x1', end: true }),
  /watches/,
);
caught('an unknown event', received({ event: 'surprise' }), /no such message/);
caught(
  'an event of a stream',
  contract.checkEvent(Buffer.from('{"event":"heartbeat","zxid":"0x1","x":1}')),
  /\(x\)/,
);
caught(
  'its name',
  contract.checkEvent(Buffer.from('{"event":"heartbeat","zxid":"0x1"}'), 'gap'),
  /name/,
);
caught(
  'its id',
  contract.checkEvent(Buffer.from('{"event":"heartbeat","zxid":"0x1"}'), 'heartbeat', '0x1'),
  /id/,
);
caught('a request', contract.checkSent(Buffer.from('{"id":1,"op":"set"}'), 'set'), /path/);
caught('a close code', contract.checkClosed(4999), /4999/);

// ---- Seen outcomes ----

const all = unseen(contract.openapi, contract.asyncapi, []);
const some = unseen(contract.openapi, contract.asyncapi, [
  'GET /znodes/v1/{path} 404 NoNode',
  'socket pingReply',
]);
assert.equal(all.length - some.length, 2);
assert.ok(all.includes('GET /znodes/v1 404 NoNode') && !some.includes('GET /znodes/v1 404 NoNode'));
assert.ok(readReasons('unseen.txt').every(({ reason }) => reason));

console.log(`${count} deviations and exchanges have the expected result`);
