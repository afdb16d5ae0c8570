// Sends requests for every outcome that a request alone can cause to three replicas, then random
// and hostile requests and messages. Every answer must be in the contract, none may be SystemError,
// and afterwards all replicas must run and have logged no fault.
//
//   ./run hostile.js [--seed N] [--seconds N]

import assert from 'node:assert/strict';
import { parseArgs } from 'node:util';

import fc from 'fast-check';

import { Contract } from './check.js';
import { ask, sendBytes } from './client.js';
import { Ensemble } from './ensemble.js';
import { HTTP2_HEAD, messages, rawHeads, requests } from './generate.js';
import { Notes } from './notes.js';
import { askForAll, askWhenFull } from './outcomes.js';
import { readDocument, readFacts } from './spec.js';

const SMALL = { maxDataBytes: 4096, maxMultiBytes: 16384, minSessionTimeout: 2000 };
// Settings for requests with a known answer: a slow client, or one that holds a silent connection,
// must not change it.
const PATIENT = { ...SMALL, headTimeout: 60000, bodyTimeout: 60000, requestTimeout: 10000 };
// Settings for random requests: some of them wait as long as they may.
const BRISK = { ...PATIENT, requestTimeout: 5000 };
// Settings for incomplete requests.
const HASTY = { ...SMALL, headTimeout: 300, bodyTimeout: 300 };
const FULL = { perAddress: 3, all: 6 };
const CHUNK_BYTES = 1 << 16;
const SWALLOWED_BYTES = 8 << 20; // Limit for a refused body.
const REPLY_MS = 60000;
const IN_FLIGHT = 40;
const { values: options } = parseArgs({
  options: { seed: { type: 'string', default: '1' }, seconds: { type: 'string', default: '9' } },
});
const seed = Number(options.seed);
const contract = new Contract(readDocument('openapi'), readDocument('asyncapi'), readFacts());
const notes = new Notes('hostile');
let count = 0;

function describe(request) {
  return `${request.method} ${request.target} ${(request.headers ?? []).join(' | ')} ${(request.body ?? '').toString().slice(0, 200)}`;
}

/** Sends the request; throws unless the answer is in the contract. */
function judge(request, answer) {
  count += 1;
  const result = contract.checkHttp({
    ...request,
    headers: (request.headers ?? []).join('\r\n'),
    ...answer,
  });
  if (result.errors.length > 0 || answer.status === 500) {
    throw new Error(
      `${describe(request)}\n  ${answer.status} ${answer.answer.toString().slice(0, 600)}\n  ${result.errors.join('\n  ')}`,
    );
  }
  notes.http(result.covered, request, answer);
}

async function send(port, request, wanted, localAddress) {
  const answer = await ask(port, request, localAddress);
  judge(request, answer);
  if (wanted !== undefined && answer.status !== wanted) {
    throw new Error(`${describe(request)}\n  is ${answer.status}, not ${wanted}: ${answer.answer}`);
  }
  return answer;
}

async function withEnsemble(count, keys, run) {
  const ensemble = await Ensemble.start(count, keys);
  try {
    await run(ensemble);
  } finally {
    await ensemble.stop();
  }
}

async function askWithReason(ensemble) {
  const [port] = ensemble.ports;
  const openSession = async () =>
    JSON.parse(
      (await send(port, { method: 'POST', target: '/sessions/v1?op=create&expire=60' })).answer,
    ).id;
  await askForAll(contract.openapi, (request, wanted) => send(port, request, wanted), openSession);
}

/** An endless chunked body: the server answers before its end, and closes. */
async function askEndlessly(port) {
  const request = { method: 'PUT', target: '/znodes/v1/endless' };
  const head = `PUT ${request.target} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n`;
  const chunk = `${CHUNK_BYTES.toString(16)}\r\n${'x'.repeat(CHUNK_BYTES)}\r\n`;
  const bytes = Buffer.from(head + chunk.repeat(SWALLOWED_BYTES / CHUNK_BYTES + 1), 'latin1');
  const answer = await sendBytes(port, bytes, 'PUT');
  judge(request, answer);
  assert.equal(answer.status, 413);
}

async function askFull() {
  const keys = {
    ...PATIENT,
    maxConnectionsPerAddress: FULL.perAddress,
    maxConnections: FULL.all,
  };
  await withEnsemble(1, keys, ({ ports: [port] }) =>
    askWhenFull(contract.openapi, port, (request, wanted, from) =>
      send(port, request, wanted, from),
    ),
  );
}

// ---- Anything ----

/** One socket for all messages. Replies must arrive in the order of requests. */
class Talk {
  constructor(port) {
    this.port = port;
    this.next = 1;
    this.waiting = [];
    this.failed = '';
  }

  async open() {
    this.socket = new WebSocket(`ws://127.0.0.1:${this.port}/ws/v1`, 'zabra.v1.json');
    this.socket.addEventListener('message', ({ data }) => this.take(data));
    this.socket.addEventListener('close', ({ code }) => this.drop(code));
    await new Promise((resolve, reject) => {
      this.socket.addEventListener('open', resolve);
      this.socket.addEventListener('error', reject);
    });
  }

  take(data) {
    const { id, event, ok } = JSON.parse(data);
    const asked = event === undefined ? this.waiting.shift() : undefined;
    const { errors, covered } = contract.checkReceived(Buffer.from(data), asked?.op ?? '');
    // A reply to invalid JSON has no id.
    if (event === undefined && id !== asked?.id && !(id === null && ok === false)) {
      errors.push(`the reply to ${asked?.id} is due`);
    }
    if (errors.length === 0) {
      notes.message(covered, asked?.op ?? '', data);
    } else if (!asked) {
      this.failed = `${data}\n  ${errors}`;
    }
    asked?.resolve({ data, errors });
  }

  drop(code) {
    const { errors } = contract.checkClosed(code);
    this.waiting.forEach(({ resolve }) =>
      resolve({ data: '', errors: [`the socket was closed with ${code}`, ...errors] }),
    );
  }

  /** Sends a message with the test's id; the reply must be in the contract. */
  async say(message) {
    const id = this.next;
    const text = JSON.stringify({ ...message, id });
    this.next += 1;
    const reply = new Promise((resolve) => {
      const op = typeof message.op === 'string' ? message.op : '';
      this.waiting.push({ id, op, resolve });
      setTimeout(() => resolve({ data: '', errors: ['no reply in time'] }), REPLY_MS).unref();
    });
    this.socket.send(text);
    const { data, errors } = await reply;
    count += 1;
    if (errors.length > 0 || this.failed || data.includes('"SystemError"')) {
      const told = `${errors.join('\n  ')}${this.failed}`;
      throw new Error(`${text}\n  ${data.slice(0, 600)}\n  ${told}`);
    }
  }

  /** Waits until no reply is due. */
  async rest() {
    await this.say({ op: 'ping' });
    assert.equal(this.waiting.length, 0);
  }
}

async function sendRequest(ports, request) {
  judge(request, await ask(ports[request.replica % ports.length], request));
}

/** The request for which the server may have taken the bytes. */
function firstLine(bytes) {
  const [method = 'GET', target = '/malformed'] = bytes
    .toString('latin1')
    .replace(/^[\r\n]+/, '')
    .split(/\r?\n/)[0]
    .split(' ');
  return { method, target };
}

/** Bytes that are no request may get an answer of the contract, or none. */
async function checkBytes(port, bytes) {
  const answer = await sendBytes(port, bytes).catch((error) => {
    if (error.code !== 'ECONNRESET' && error.code !== 'EPIPE') {
      throw error;
    }
  });
  count += 1;
  if (answer && Number.isInteger(answer.status)) {
    const request = firstLine(bytes);
    const result = contract.checkHttp({ ...request, headers: '', ...answer });
    if (result.errors.length > 0) {
      throw new Error(
        `${bytes.toString('latin1')}\n  ${answer.status} ${answer.answer}\n  ${result.errors.join('\n  ')}`,
      );
    }
    notes.http(result.covered, request, answer);
  }
}

async function tryAll(name, part, arbitrary, run) {
  const limit = (Number(options.seconds) * 1000 * part) / 10;
  const property = fc.asyncProperty(arbitrary, run);
  const result = await fc.check(property, {
    seed,
    numRuns: 1000000,
    interruptAfterTimeLimit: limit,
    markInterruptAsFailure: false,
    endOnFailure: process.env.CI !== undefined,
  });
  if (result.failed) {
    throw new Error(
      `${name}, --seed ${seed}: ${result.errorInstance?.message ?? result.error}\n${fc.stringify(result.counterexample)}`,
    );
  }
  console.log(`${name}: ${result.numRuns} tried`);
}

/** Sends each operation once so that it succeeds. */
async function sayAll(talk) {
  const path = '/said';
  const list = [
    { op: 'ping' },
    { op: 'sync' },
    { op: 'whoami' },
    { op: 'status' },
    { op: 'ensemble' },
    { op: 'limits' },
    { op: 'session' },
    { op: 'touch' },
    { op: 'getsession' },
    { op: 'create', path, dataUtf8: 'x' },
    { op: 'create', path: `${path}/e`, ephemeral: true },
    { op: 'get', path, watch: true },
    { op: 'exists', path: '/none', watch: true },
    { op: 'stat', path },
    { op: 'children', path, with: 'data' },
    { op: 'tree', path, with: 'stat' },
    { op: 'search', path: '/', with: 'stat' },
    { op: 'getacl', path },
    { op: 'watch', path, kind: 'recursive', values: true },
    { op: 'set', path, dataUtf8: 'y' },
    { op: 'setacl', path, acl: 'open' },
    {
      op: 'multi',
      ops: [
        { op: 'get', path },
        { op: 'get', path: '/none' },
      ],
    },
    {
      op: 'multi',
      ops: [
        { op: 'check', path },
        { op: 'create', path: `${path}/m` },
      ],
    },
    { op: 'auth', scheme: 'digest', credential: 'bob:secret' },
    { op: 'unwatch', watch: 3 },
    { op: 'detach' },
    { op: 'delete', path, recursive: true },
  ];
  await Promise.all(list.map((message) => talk.say(message)));
}

async function askAnything(ensemble) {
  const talk = new Talk(ensemble.ports[1]);
  await talk.open();
  await sayAll(talk);
  await tryAll('requests', 5, requests(contract.openapi), (request) =>
    sendRequest(ensemble.ports, request),
  );
  const lists = fc.array(messages(contract.asyncapi), { minLength: 1, maxLength: IN_FLIGHT });
  await tryAll('lists of messages', 3, lists, async (list) => {
    await Promise.all(list.map((message) => talk.say(message)));
  });
  await talk.rest();
  talk.socket.close();
}

async function sendHeads({ ports: [port] }) {
  await checkBytes(port, Buffer.from(HTTP2_HEAD, 'latin1'));
  await tryAll('heads', 2, rawHeads(), (bytes) => checkBytes(port, bytes));
}

async function checkAlive(ensemble) {
  await ensemble.waitReady(); // A busy machine may have lost the leader a moment ago.
  for (const port of ensemble.ports) {
    await send(port, { method: 'GET', target: '/livez' }, 200);
    await send(port, { method: 'GET', target: '/readyz' }, 200);
  }
  const complaints = ensemble.complaints();
  if (complaints.length > 0) {
    throw new Error(`the logs have faults:\n${complaints.join('\n')}`);
  }
}

async function main() {
  console.log(`seed ${seed}`);
  try {
    await withEnsemble(3, PATIENT, async (ensemble) => {
      await askWithReason(ensemble);
      await askEndlessly(ensemble.ports[0]);
      await checkAlive(ensemble);
    });
    await askFull();
    console.log(`each operation: ${count} answers`);
    await withEnsemble(3, BRISK, async (ensemble) => {
      await askAnything(ensemble);
      await checkAlive(ensemble);
    });
    await withEnsemble(1, HASTY, async (ensemble) => {
      await sendHeads(ensemble);
      await checkAlive(ensemble);
    });
  } finally {
    notes.close();
  }
  console.log(`${count} answers, all of them in the contract`);
}

main().catch((error) => {
  console.log(error.stack);
  process.exitCode = 1;
});
