// What the recipes share: calls that are tried again elsewhere, a session, ways to wait.
//
// Node 18 or newer, no packages. See client.md beside this file.
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

const { env } = process;
const SERVERS = (env.ZABRA ?? '127.0.0.1:9998,127.0.0.1:9999,127.0.0.1:10000').split(',');
const TIMEOUT_S = Number(env.ZABRA_TIMEOUT ?? 10); // Of a session.
const PATIENCE_MS = 30000; // For one call, all its tries together.
const PAUSE_MS = 100; // Between two tries.
const WAIT_S = 20; // For one long poll; then it is asked again.
const AGAIN = ['InFlight', 'ThrottledOp', 'NotReady', 'ReplicaBehind', 'OperationTimeout'];

/** An answer that says no. `code` is its name, NodeExists for example. */
export class Problem extends Error {
  constructor(answer) {
    const problem = JSON.parse(answer.text || '{}');
    super(`${answer.status} ${problem.code}: ${problem.detail}`);
    this.status = answer.status;
    this.code = problem.code;
  }
}

/** The session is over, or no replica answered for so long that it may be. */
export class SessionLost extends Error {}

/** The URL of a znode, without the server. */
export function target(path, query = {}) {
  return `/znodes/v1${encodeURI(path)}?${new URLSearchParams(query)}`;
}

export class Client {
  seen = 0n; // No answer may be older than what we have seen,
  history = null; // which is of this history.
  turn = Math.floor(Math.random() * SERVERS.length);
  lost = new AbortController();

  constructor(secret) {
    this.secret = secret;
  }

  // --- Calls ---

  /** Tried until it is known what became of it. The key makes a second try harmless. */
  async call(method, url, { body, headers = {}, patience = PATIENCE_MS, wait = 0 } = {}) {
    if (method !== 'GET' && !url.startsWith('/sessions/')) {
      headers = { ...headers, 'Idempotency-Key': randomUUID() };
    }
    const end = performance.now() + patience;
    for (;;) {
      const answer = await this.tryOnce(method, url, body, headers, patience / 2 + wait);
      if (answer?.status < 400) {
        return answer;
      }
      const problem = answer ? new Problem(answer) : null;
      if (problem && ['SessionExpired', 'UnknownSession'].includes(problem.code)) {
        throw new SessionLost(problem.message);
      }
      if (problem && !AGAIN.includes(problem.code)) {
        throw problem;
      }
      if (performance.now() > end) {
        throw problem ?? new Error(`no answer from any of ${SERVERS}`);
      }
      this.turn++;
      await sleep(PAUSE_MS);
    }
  }

  async tryOnce(method, url, body, headers, timeout) {
    headers = { 'Zk-Min-Zxid': `0x${this.seen.toString(16)}`, ...headers };
    if (this.history) {
      headers['Zk-History'] = this.history;
    }
    if (this.secret) {
      headers['Zk-Session'] = this.secret;
    }
    const server = SERVERS[this.turn % SERVERS.length];
    const signal = AbortSignal.timeout(Math.ceil(timeout));
    try {
      // Bytes: text would be sent as text/plain, which is no type for data.
      const bytes = body === undefined ? undefined : Buffer.from(body);
      const reply = await fetch(`http://${server}${url}`, { method, body: bytes, headers, signal });
      const text = await reply.text();
      this.log(server, method, url, reply.status);
      const zxid = BigInt(reply.headers.get('Zk-Zxid') ?? 0);
      this.seen = zxid > this.seen ? zxid : this.seen;
      this.history ??= reply.headers.get('Zk-History');
      return { status: reply.status, etag: reply.headers.get('ETag'), text };
    } catch (error) {
      this.log(server, method, url, error.cause ?? error);
      return null;
    }
  }

  log(...words) {
    if ('ZABRA_LOG' in env) {
      console.error('call', ...words.map(String));
    }
  }

  // --- Znodes ---

  /** The data as it is; null when there is no such znode. */
  get(path, query) {
    return this.read(target(path, query), { headers: { Accept: 'application/octet-stream' } });
  }

  /** Sequential: the name gets a number. Returns the stat, with the path. */
  async create(path, data = '', query = {}) {
    const cut = path.lastIndexOf('/');
    const words = { op: 'create', name: path.slice(cut + 1), ...query };
    const url = target(path.slice(0, cut) || '/', words);
    const made = JSON.parse((await this.call('POST', url, { body: data })).text);
    return { ...made, czxid: BigInt(made.czxidHex) };
  }

  /** The same; null when it is there already. Missing parents are made, too. */
  async tryCreate(path, data = '', query = {}) {
    try {
      return await this.create(path, data, { parents: true, ...query });
    } catch (problem) {
      if (problem.code !== 'NodeExists') {
        throw problem;
      }
      return null;
    }
  }

  /** With an entity tag: only if the znode is still the one that was read. */
  async set(path, data, etag, query) {
    const headers = etag ? { 'If-Match': etag } : {};
    return JSON.parse((await this.call('PUT', target(path, query), { body: data, headers })).text);
  }

  /** The same; null when it is another one by now, or gone. */
  async trySet(path, data, etag) {
    try {
      return await this.set(path, data, etag);
    } catch (problem) {
      if (!['BadVersion', 'NoNode'].includes(problem.code)) {
        throw problem;
      }
      return null;
    }
  }

  /** Whether it existed and this call deleted it. */
  async delete(path) {
    try {
      await this.call('DELETE', target(path));
      return true;
    } catch (problem) {
      if (problem.code !== 'NoNode') {
        throw problem;
      }
      return false;
    }
  }

  /** Their names in order, and the entity tag to wait with. */
  async children(path) {
    const answer = await this.call('GET', target(path, { view: 'children' }));
    return { names: JSON.parse(answer.text).children, etag: answer.etag };
  }

  /** All of these operations or none. */
  async multi(...ops) {
    const headers = { 'Content-Type': 'application/json' };
    const answer = await this.call('POST', '/multi/v1', { body: JSON.stringify({ ops }), headers });
    return JSON.parse(answer.text).results;
  }

  // --- Waiting ---

  /** The answer that differs from the one with this entity tag; null when it is gone. */
  async wait(url, etag) {
    const headers = { 'If-None-Match': etag, Prefer: `wait=${WAIT_S}` };
    for (;;) {
      const answer = await this.read(url, { headers, wait: WAIT_S * 1000 });
      if (answer?.status !== 304) {
        return answer;
      }
      await sleep(PAUSE_MS); // Waiting is a wish: 304 may come at once.
    }
  }

  async read(url, options) {
    try {
      return await this.call('GET', url, options);
    } catch (problem) {
      if (problem.code !== 'NoNode') {
        throw problem;
      }
      return null;
    }
  }

  waitChildren(path, etag) {
    return this.wait(target(path, { view: 'children' }), etag);
  }

  /** Until the znode that is there now has been deleted. */
  async waitGone(path) {
    const url = target(path, { dataformat: 'none' });
    const created = (answer) => answer && JSON.parse(answer.text).czxidHex;
    const first = await this.read(url);
    for (let answer = first; answer && created(answer) === created(first); ) {
      answer = await this.wait(url, answer.etag);
    }
  }

  // --- A session ---

  /** Runs `work(client)` within a session, which is closed at the end. */
  static async withSession(work) {
    const client = new Client();
    const sent = performance.now();
    const url = `/sessions/v1/?op=create&expire=${TIMEOUT_S}`;
    const session = JSON.parse((await client.call('POST', url)).text);
    client.secret = session.id;
    client.heartbeat(session.timeout_ms, sent);
    let ended = false;
    const end = new Promise((resolve) => process.once('SIGTERM', resolve)).then(() => {
      ended = true;
    });
    try {
      return await Promise.race([work(client), end]);
    } finally {
      await client.close();
      if (ended) {
        process.exit(143);
      }
    }
  }

  /** Every third of the time-out; after two thirds without an answer we are on our own. */
  async heartbeat(timeout, sent) {
    const beat = new Client(this.secret);
    while (!this.lost.signal.aborted) {
      try {
        await sleep(timeout / 3, undefined, { signal: this.lost.signal });
        const patience = Math.max(sent + (timeout * 2) / 3 - performance.now(), 0);
        sent = performance.now();
        await beat.call('PUT', '/sessions/v1/', { patience });
      } catch (error) {
        this.lost.abort(new SessionLost(error.message));
      }
    }
  }

  /** Runs a command, and kills it when the session is lost. Returns its exit code. */
  async hold([command, ...args], environment) {
    const child = spawn(command, args, { stdio: 'inherit', env: { ...env, ...environment } });
    const kill = () => child.kill('SIGKILL');
    this.lost.signal.addEventListener('abort', kill);
    const code = await new Promise((resolve, reject) => {
      child.once('exit', resolve);
      child.once('error', reject);
    });
    this.lost.signal.removeEventListener('abort', kill);
    this.lost.signal.throwIfAborted();
    return code;
  }

  /** Until SIGTERM comes or the session is lost. */
  stay() {
    return new Promise((resolve, reject) => {
      this.lost.signal.addEventListener('abort', () => reject(this.lost.signal.reason));
    });
  }

  async close() {
    this.lost.abort(new SessionLost('closed'));
    try {
      await this.call('DELETE', '/sessions/v1/', { patience: 2000 });
    } catch {
      // It expires by itself.
    }
  }
}
