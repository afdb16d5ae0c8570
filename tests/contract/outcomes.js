// Brings about, for each operation of the contract, the outcomes that a request alone can bring
// about: each is asked for on purpose, and each answer is held against the contract.

import { randomUUID } from 'node:crypto';

import { hold } from './client.js';
import { resolve } from './spec.js';

const SESSION = '0b8f2c1e-5d6a-4c8e-9f10-2a3b4c5d6e7f';
const MANY = 1200; // More than one answer holds.
const PLACES_MAX = 8; // More than there are, see hostile.js.
const WRITES = ['put', 'post', 'delete', 'patch'];
const OVER_DATA = Buffer.alloc(1 << 16, 0x78);
const JSON_TYPE = 'Content-Type: application/json';
const LINES_TYPE = 'Content-Type: application/x-ndjson';
const OWNER = `Authorization: Basic ${Buffer.from('bob:secret').toString('base64')}`;
const STRANGER = `Authorization: Basic ${Buffer.from('eve:secret').toString('base64')}`;

/** A valid id of the collection. */
function idOf(path) {
  return path.startsWith('/sessions') ? SESSION : '4';
}

/** All operations, each with some valid target. */
export function operationsOf(document) {
  return Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item)
      .filter(([key]) => key !== 'parameters')
      .map(([key, operation]) => ({
        method: key.toUpperCase(),
        write: WRITES.includes(key),
        path,
        operation,
        target: withChoice(path.replace('{path}', 'outcomes').replace('{id}', idOf(path)), operation, document),
      })),
  );
}

function withQuery(target, query) {
  return `${target}${target.includes('?') ? '&' : '?'}${query}`;
}

/** The target with each query parameter that must be there and is one of some words. */
function withChoice(target, operation, document) {
  return (operation.parameters ?? [])
    .map((parameter) => resolve(document, parameter))
    .filter(({ in: place, required, schema }) => place === 'query' && required && schema.enum)
    .reduce((url, { name, schema }) => withQuery(url, `${name}=${schema.enum[0]}`), target);
}

/** Faulty requests, and the status that each must have. */
function faults({ method, write, operation, target, path }) {
  const named = operation.parameters?.length > 0;
  const has = (status) => operation.responses[status] !== undefined;
  const session = path === '/sessions/v1' && method !== 'POST' ? [`Zk-Session: ${SESSION}`] : [];
  const one = (status, more, query) => ({
    status,
    method,
    target: query ? withQuery(target, query) : target,
    ...more,
  });
  const list = [
    one(421, { headers: ['Host: evil.example'] }),
    one(431, { headers: [`X-Long: ${'x'.repeat(1 << 14)}`] }),
  ];
  const add = (condition, ...more) => condition && list.push(...more);
  add(method === 'OPTIONS' || path === '/sync/v1', one(400, { body: Buffer.from('x') }));
  add(
    named,
    one(400, {}, 'colour=red'),
    one(406, {}, 'callback=f'),
    one(406, { headers: ['Accept: image/png', ...session] }),
    one(409, { headers: ['Zk-History: 1', ...session] }),
  );
  add(
    named && has(401) && operation.security === undefined,
    one(401, { headers: ['Authorization: Bearer x'] }),
    one(has(404) && path === '/sessions/v1/{id}' ? 404 : 401, { headers: ['Zk-Session: x'] }),
  );
  add(
    method !== 'GET' && method !== 'HEAD' && method !== 'OPTIONS',
    one(415, { headers: ['Content-Encoding: gzip', ...session], body: Buffer.from('x') }),
  );
  add(path === '/ui/{path}' && method !== 'OPTIONS', { ...one(400), target: '/ui/%00' });
  add(write && has(403), one(403, { headers: ['Origin: http://evil.example'] }));
  const content = operation.requestBody?.content ?? {};
  add(
    operation.requestBody && !path.startsWith('/import'),
    one(413, { headers: [JSON_TYPE].slice(method === 'PUT' ? 1 : 0), body: OVER_DATA }),
  );
  add(
    content['application/json'] && !content['*/*'],
    one(415, { headers: ['Content-Type: text/xml'], body: Buffer.from('<a/>') }),
  );
  return list;
}

/**
 * Outcomes that depend on the tree. In order: each request prepares the state for the next ones.
 */
function* story(path, session) {
  const at = (rest, query = '') =>
    path.includes('{')
      ? `/znodes/v1${rest}${query && `?${query}`}`
      : `/znodes/v1?path=${rest}${query && `&${query}`}`;
  const key = randomUUID();
  const keyed = [`Idempotency-Key: ${key}`];
  const json = (value) => ({ headers: [JSON_TYPE], body: Buffer.from(JSON.stringify(value)) });
  const inside = [`Zk-Session: ${session}`];
  const gone = [`Zk-Session: ${randomUUID()}`];
  const raw = ['Accept: application/octet-stream'];
  yield [201, 'POST', at('/', 'op=create&name=outcomes')];
  yield [409, 'POST', at('/', 'name=outcomes')];
  yield [404, 'POST', at('/none', 'name=x')];
  yield [400, 'POST', at('/outcomes', 'name=x'), { headers: ['Zk-Acl: bob'] }];
  yield [401, 'POST', at('/outcomes', 'name=x&ephemeral=true')];
  yield [401, 'POST', at('/outcomes', 'name=x'), { headers: gone }];
  yield [201, 'POST', at('/outcomes', 'name=k'), { headers: keyed }];
  yield [422, 'POST', at('/outcomes', 'name=l'), { headers: keyed }];
  yield [201, 'POST', at('/outcomes', 'name=r'), { headers: raw }];
  yield [201, 'POST', at('/outcomes', 'name=e&ephemeral=true'), { headers: inside }];
  yield [409, 'POST', at('/outcomes/e', 'name=x')];
  yield [409, 'PUT', at('/outcomes/e/x', 'upsert=true')];
  yield [200, 'PUT', at('/outcomes/k'), { body: Buffer.from('x') }];
  yield [201, 'PUT', at('/outcomes/p'), { headers: ['If-None-Match: *'] }];
  for (const type of ['text/xml', 'application/json', 'application/x-www-form-urlencoded']) {
    const typed = { headers: [`Content-Type: ${type}`], body: Buffer.from('{a=b&') };
    yield [200, 'PUT', at('/outcomes/p'), typed];
    yield [type === JSON_TYPE.split(' ')[1] ? 400 : 201, 'POST', at('/outcomes', 'name=t-&sequence=true'), typed];
  }
  yield [204, 'PUT', at('/outcomes/p'), { headers: raw }];
  yield [412, 'PUT', at('/outcomes/p', 'version=7')];
  yield [404, 'PUT', at('/outcomes/none')];
  yield [400, 'PUT', at('/outcomes/q', 'upsert=true'), { headers: ['Zk-Acl: world:anyone:z'] }];
  yield [401, 'PUT', at('/outcomes/p'), { headers: gone }];
  yield [422, 'PUT', at('/outcomes/p'), { headers: keyed }];
  yield [201, 'POST', at('/outcomes', 'name=secret'), { headers: ['Zk-Acl: creator', OWNER] }];
  for (const [status, more] of [
    [401, {}],
    [403, { headers: [STRANGER] }],
  ]) {
    yield [status, 'GET', at('/outcomes/secret'), more];
    yield [status, 'PUT', at('/outcomes/secret'), more];
    yield [status, 'POST', at('/outcomes/secret', 'name=x'), more];
    yield [
      status,
      'PATCH',
      at('/outcomes/secret'),
      { ...json({ acl: 'open' }), headers: [JSON_TYPE, ...(more.headers ?? [])] },
    ];
  }
  yield [201, 'POST', at('/outcomes/secret', 'name=x'), { headers: [OWNER] }];
  yield [401, 'DELETE', at('/outcomes/secret/x')];
  yield [403, 'DELETE', at('/outcomes/secret/x'), { headers: [STRANGER] }];
  yield [204, 'DELETE', at('/outcomes/secret', 'recursive=true'), { headers: [OWNER] }];
  yield [200, 'PATCH', at('/outcomes/p'), json({ acl: 'open' })];
  yield [400, 'PATCH', at('/outcomes/p'), json({ acl: [{ perms: ['all'], scheme: 'auth' }] })];
  yield [404, 'PATCH', at('/outcomes/none'), json({ acl: 'open' })];
  yield [412, 'PATCH', at('/outcomes/p'), json({ acl: 'open', aversion: 9 })];
  yield [
    401,
    'PATCH',
    at('/outcomes/p'),
    { ...json({ acl: 'open' }), headers: [JSON_TYPE, ...gone] },
  ];
  yield [
    422,
    'PATCH',
    at('/outcomes/p'),
    { ...json({ acl: 'open' }), headers: [JSON_TYPE, ...keyed] },
  ];
  for (const view of ['data', 'stat', 'children', 'tree', 'acl']) {
    yield [200, 'GET', at('/outcomes', `view=${view}`)];
  }
  yield [304, 'GET', at('/outcomes'), { headers: ['If-None-Match: *'] }];
  yield [200, 'PUT', at('/outcomes/e', 'null=true')];
  yield [204, 'GET', at('/outcomes/e'), { headers: raw }];
  yield [404, 'GET', at('/outcomes/none')];
  yield [401, 'GET', at('/outcomes'), { headers: gone }];
  yield [406, 'GET', at('/outcomes/p', 'dataformat=json')];
  yield [503, 'GET', at('/outcomes'), { headers: ['Zk-Min-Zxid: 0xffffffffffff'] }];
  yield [409, 'DELETE', at('/outcomes')];
  yield [404, 'DELETE', at('/outcomes/none')];
  yield [412, 'DELETE', at('/outcomes/p', 'version=7')];
  yield [401, 'DELETE', at('/outcomes/p'), { headers: gone }];
  yield [422, 'DELETE', at('/outcomes/p'), { headers: keyed }];
  yield [204, 'DELETE', at('/outcomes', 'recursive=true')];
}

function* otherStories(session) {
  const lines = (...list) => ({
    headers: [LINES_TYPE],
    body: Buffer.from(list.map((line) => JSON.stringify(line)).join('\n')),
  });
  const json = (value) => ({ headers: [JSON_TYPE], body: Buffer.from(JSON.stringify(value)) });
  const gone = `Zk-Session: ${randomUUID()}`;
  const late = 'Zk-Min-Zxid: 0xffffffffffff';
  const multi = (...ops) => json({ ops });
  yield [
    200,
    'POST',
    '/multi/v1',
    multi(
      { op: 'create', path: '/m' },
      { op: 'create', path: '/m/x' },
      { op: 'check', path: '/m' },
    ),
  ];
  yield [
    200,
    'POST',
    '/multi/v1',
    multi(
      { op: 'get', path: '/m' },
      { op: 'children', path: '/m', with: 'data' },
      { op: 'exists', path: '/no' },
    ),
  ];
  yield [
    409,
    'POST',
    '/multi/v1',
    multi({ op: 'check', path: '/m' }, { op: 'create', path: '/m' }),
  ];
  yield [409, 'POST', '/multi/v1', multi({ op: 'delete', path: '/m' })];
  yield [404, 'POST', '/multi/v1', multi({ op: 'set', path: '/no', dataUtf8: '' })];
  yield [412, 'POST', '/multi/v1', multi({ op: 'set', path: '/m', dataUtf8: '', version: 3 })];
  yield [
    400,
    'POST',
    '/multi/v1',
    multi({ op: 'create', path: '/n', acl: [{ perms: ['all'], scheme: 'auth' }] }),
  ];
  yield [
    400,
    'POST',
    '/multi/v1',
    multi({ op: 'get', path: '/m' }, { op: 'set', path: '/m', dataUtf8: '' }),
  ];
  yield [
    401,
    'POST',
    '/multi/v1',
    { ...multi({ op: 'check', path: '/m' }), headers: [JSON_TYPE, gone] },
  ];
  yield [
    503,
    'POST',
    '/multi/v1',
    { ...multi({ op: 'get', path: '/m' }), headers: [JSON_TYPE, late] },
  ];
  yield [
    201,
    'POST',
    '/znodes/v1/m',
    { ...json({ path: '/m/e', ephemeral: true }), headers: [JSON_TYPE, `Zk-Session: ${session}`] },
  ];
  yield [409, 'POST', '/multi/v1', multi({ op: 'create', path: '/m/e/x' })];
  yield [201, 'POST', '/znodes/v1/m?name=mine', { headers: ['Zk-Acl: creator', OWNER] }];
  yield [401, 'POST', '/multi/v1', multi({ op: 'set', path: '/m/mine', dataUtf8: '' })];
  yield [
    403,
    'POST',
    '/multi/v1',
    { ...multi({ op: 'set', path: '/m/mine', dataUtf8: '' }), headers: [JSON_TYPE, STRANGER] },
  ];
  for (const route of ['/search/v1', '/export/v1']) {
    yield [200, 'GET', `${route}/m`];
    yield [401, 'GET', `${route}/m`, { headers: [gone] }];
    yield [404, 'GET', `${route}/none`];
    yield [401, 'GET', `${route}/m/mine`];
    yield [403, 'GET', `${route}/m/mine`, { headers: [STRANGER] }];
    yield [503, 'GET', `${route}/m`, { headers: [late] }];
  }
  yield [200, 'POST', '/import/v1/m', lines({ path: 'i', dataUtf8: 'x' })];
  yield [409, 'POST', '/import/v1/m', lines({ path: 'i', dataUtf8: 'x' })];
  yield [409, 'POST', '/import/v1/m/e', lines({ path: 'x' })];
  yield [
    400,
    'POST',
    '/import/v1/m',
    lines({ path: 'j', acl: [{ perms: ['all'], scheme: 'auth' }] }),
  ];
  yield [404, 'POST', '/import/v1/none', lines({ path: 'x' })];
  yield [
    415,
    'POST',
    '/import/v1/m',
    { ...lines({ path: 'x' }), headers: ['Content-Type: text/xml'] },
  ];
  yield [413, 'POST', '/import/v1/m', lines({ path: 'x', dataUtf8: 'x'.repeat(5000) })];
  yield [401, 'POST', '/import/v1/m', { ...lines({ path: 'x' }), headers: [LINES_TYPE, gone] }];
  yield [503, 'POST', '/import/v1/m', { ...lines({ path: 'x' }), headers: [LINES_TYPE, late] }];
  yield [401, 'POST', '/import/v1/m/mine', lines({ path: 'x' })];
  yield [
    403,
    'POST',
    '/import/v1/m/mine',
    { ...lines({ path: 'x' }), headers: [LINES_TYPE, STRANGER] },
  ];
  const key = `Idempotency-Key: ${randomUUID()}`;
  yield [
    200,
    'POST',
    '/multi/v1',
    { ...multi({ op: 'check', path: '/m' }), headers: [JSON_TYPE, key] },
  ];
  yield [
    422,
    'POST',
    '/multi/v1',
    { ...multi({ op: 'check', path: '/m/x' }), headers: [JSON_TYPE, key] },
  ];
  for (const target of ['/zookeeper/quota/m', '/zookeeper/quota/m/zookeeper_limits']) {
    yield [
      201,
      'PUT',
      `/znodes/v1${target}?upsert=true`,
      { body: Buffer.from('countHardLimit=6') },
    ];
  }
  yield [
    507,
    'POST',
    '/multi/v1',
    multi(
      { op: 'create', path: '/m/1' },
      { op: 'create', path: '/m/2' },
      { op: 'create', path: '/m/3' },
    ),
  ];
  yield [201, 'POST', '/znodes/v1/m?name=1'];
  yield [507, 'POST', '/znodes/v1/m?name=2'];
  yield [507, 'PUT', '/znodes/v1/m/2?upsert=true'];
  yield [507, 'POST', '/import/v1/m', lines({ path: '2' }, { path: '3' })];
  yield [204, 'DELETE', '/znodes/v1/m?recursive=true', { headers: [OWNER] }];
  for (const method of ['GET', 'PUT']) {
    yield [200, method, `/sessions/v1/${session}`];
    yield [method === 'PUT' ? 404 : 401, method, `/sessions/v1/${randomUUID()}`];
    yield [503, method, `/sessions/v1/${session}`, { headers: [late] }];
  }
  yield [201, 'POST', '/sessions/v1?op=create'];
  for (const [method, target] of [
    ['POST', '/sync/v1'],
    ['GET', '/watch/v1/'],
    ['GET', '/watch/v1?path=/'],
    ['GET', '/whoami/v1'],
  ]) {
    yield [401, method, target, { headers: [gone] }];
    yield [200, method, target, { headers: [`Zk-Session: ${session}`] }];
  }
  yield [503, 'POST', '/sync/v1', { headers: [late] }];
  yield [503, 'GET', '/watch/v1/', { headers: [late] }];
  yield [304, 'GET', '/openapi.json', { headers: ['If-None-Match: *'] }];
  yield [304, 'GET', '/asyncapi.json', { headers: ['If-None-Match: *'] }];
  yield [304, 'GET', '/ui', { headers: ['If-None-Match: *'] }];
  yield [304, 'GET', '/ui/tree', { headers: ['If-None-Match: *'] }];
  yield [404, 'GET', '/ui/assets/none.js'];
  yield [503, 'GET', '/whoami/v1', { headers: [gone, late] }];
  const many = (from) =>
    Array.from({ length: MANY / 4 }, (_, i) => ({
      op: 'create',
      path: `/many/of-a-long-name-${from + i}`,
    }));
  yield [201, 'POST', '/znodes/v1/?name=many'];
  for (let from = 0; from < MANY; from += MANY / 4) {
    yield [200, 'POST', '/multi/v1', multi(...many(from))];
  }
  yield [413, 'GET', '/znodes/v1/many?view=tree'];
  yield [403, 'PUT', '/livez', { headers: ['Origin: http://evil.example'] }];
  yield [426, 'PUT', '/ws/v1'];
  yield [404, 'GET', '/nothing'];
  yield [421, 'GET', '/nothing', { headers: ['Host: evil.example'] }];
  yield [405, 'DELETE', '/sync/v1'];
}

const UPGRADE = [
  'Upgrade: websocket',
  'Connection: Upgrade',
  'Sec-WebSocket-Version: 13',
  'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==',
  'Sec-WebSocket-Protocol: zabra.v1.json',
];

function* socketStories() {
  const without = (name) => UPGRADE.filter((line) => !line.startsWith(name));
  yield [101, 'GET', '/ws/v1', { headers: UPGRADE }];
  yield [400, 'GET', '/ws/v1', { headers: without('Sec-WebSocket-Protocol') }];
  yield [401, 'GET', '/ws/v1', { headers: [...UPGRADE, 'Authorization: Bearer x'] }];
  yield [403, 'GET', '/ws/v1', { headers: [...UPGRADE, 'Origin: http://evil.example'] }];
  yield [421, 'GET', '/ws/v1', { headers: [...UPGRADE, 'Host: evil.example'] }];
  yield [426, 'GET', '/ws/v1', { headers: without('Sec-WebSocket-Version') }];
}

/** Requests that wait in vain take the maximal time: they run in parallel with the others. */
class SlowRequests {
  constructor(send) {
    this.send = send;
    this.waiting = [];
  }

  async ask(request, wanted) {
    if (wanted === 503) {
      const answer = this.send(request, wanted);
      answer.catch(() => {}); // Thrown by end().
      this.waiting.push(answer);
    } else {
      await this.send(request, wanted);
    }
  }

  async end() {
    await Promise.all(this.waiting);
  }
}

async function askForFaults(document, send) {
  for (const operation of operationsOf(document)) {
    for (const request of faults(operation)) {
      await send(request, request.status);
    }
    if (operation.method === 'OPTIONS' || operation.method === 'HEAD') {
      await send(operation);
    }
  }
}

/** `send(request, wanted status)` sends a request and checks the answer. */
export async function askForAll(document, send, openSession) {
  await askForFaults(document, send);
  const session = await openSession();
  const slowRequests = new SlowRequests(send);
  for (const path of ['/znodes/v1/{path}', '/znodes/v1']) {
    for (const [status, method, target, more] of story(path, session)) {
      await slowRequests.ask({ method, target, ...more }, status);
    }
  }
  for (const [status, method, target, more] of [...otherStories(session), ...socketStories()]) {
    await slowRequests.ask({ method, target, ...more }, status);
  }
  await slowRequests.end();
  await send({ method: 'DELETE', target: `/sessions/v1/${session}` }, 204);
}

/**
 * Takes places until the answer has the wanted status: the place of an earlier connection may
 * become free at any moment.
 */
async function askUntil(port, send, request, wanted, { from, held }) {
  let answer = await send(request, undefined, from);
  for (let i = 0; i < PLACES_MAX && answer.status !== wanted; i += 1) {
    held.push(await hold(port, from));
    answer = await send(request, undefined, from);
  }
  if (answer.status !== wanted) {
    throw new Error(`${request.method} ${request.target} is ${answer.status}, not ${wanted}`);
  }
}

/** Probes are answered even when all places are taken. */
function isProbe({ method, target }) {
  return ['GET', 'HEAD'].includes(method) && ['/livez', '/readyz', '/metrics'].includes(target);
}

/** Sends each operation when all places are taken: those of one address (429), then all (503). */
export async function askWhenFull(document, port, send) {
  const held = [];
  const plain = operationsOf(document)
    .map(({ method, target }) => ({ method, target }))
    .filter((request) => !isProbe(request));
  for (const request of plain) {
    await askUntil(port, send, request, 429, { from: '127.0.0.1', held });
  }
  for (let i = 0; i < PLACES_MAX; i += 1) {
    held.push(await hold(port, '127.0.0.2'));
  }
  for (const request of plain) {
    await askUntil(port, send, request, 503, { from: '127.0.0.3', held });
  }
  held.forEach((socket) => socket.destroy());
}
