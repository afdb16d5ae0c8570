// Three replicas for a browser: `zabra serve` on free ports of loopback, one process each, so that
// a test can kill one.

import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { portFree } from '../lib/ports.mjs';

// The data is in memory: pages rightly warn of slow disks, and those of a busy machine may be slow.
const MEMORY = existsSync('/dev/shm') ? '/dev/shm' : tmpdir();
const START_MS = 60_000;
const STARTS = 5; // Attempts with other ports, if another program takes one meanwhile.
const STOP_MS = 20_000;
const ANSWER_MS = 5_000;
const SAID_MAX = 4_096; // Kept bytes of a replica's last output.
const LOOK_MS = 50;
const TICK_MS = 20;

function pause(ms) {
  return new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
}

/** Waits until `condition` holds; after the deadline throws the description. */
export async function until(what, condition, ms = 30_000) {
  const end = Date.now() + ms;
  while (!(await condition())) {
    if (Date.now() > end) {
      throw new Error(`in vain: ${what}`);
    }
    await pause(LOOK_MS);
  }
}

/**
 * How many times longer than planned pauses take from now until the returned function is called: 1
 * on an idle machine. A limit of time times this holds on a busy machine, too.
 */
export function slowness() {
  const begun = performance.now();
  let pauses = 0;
  let over = false;
  const next = () => {
    pauses += 1;
    if (!over) {
      setTimeout(next, TICK_MS);
    }
  };
  setTimeout(next, TICK_MS);
  return () => {
    over = true;
    return Math.max(1, (performance.now() - begun) / (Math.max(1, pauses) * TICK_MS));
  };
}

export class Replicas {
  /** `keys` of the configuration; a function gets the replica's index. */
  static async start(count = 3, keys = {}) {
    for (let starts = 1; ; starts += 1) {
      try {
        return await Replicas.startOnce(count, keys);
      } catch (error) {
        if (starts === STARTS || !/ is in use on /.test(error.message)) {
          throw error;
        }
      }
    }
  }

  static async startOnce(count, keys) {
    const replicas = new Replicas();
    replicas.directory = mkdtempSync(join(MEMORY, 'zabra-web-'));
    replicas.peers = await Promise.all(Array.from({ length: count }, () => portFree()));
    replicas.ports = await Promise.all(Array.from({ length: count }, () => portFree()));
    replicas.keys = keys;
    replicas.founders = count;
    replicas.processes = replicas.ports.map((_, at) => replicas.serve(at));
    try {
      await Promise.all(
        replicas.ports.map((port, at) =>
          until(
            `replica ${at + 1} is ready`,
            () => {
              replicas.look(at);
              return replicas.isReady(port);
            },
            START_MS,
          ),
        ),
      );
    } catch (error) {
      await replicas.stop();
      throw error;
    }
    return replicas;
  }

  serve(at) {
    const settings = {
      id: at + 1,
      dataDir: join(this.directory, String(at + 1)),
      clientPort: this.ports[at],
      advertiseClient: `127.0.0.1:${this.ports[at]}`,
      heartbeatInterval: 1_000,
      walSegmentBytes: 4_194_304, // A start fills two segments with zeros.
      ...(process.env.ZABRA_WEB_DIR ? { webDir: process.env.ZABRA_WEB_DIR } : {}),
      ...this.others(at),
      ...(typeof this.keys === 'function' ? this.keys(at) : this.keys),
    };
    const args = Object.entries(settings).flatMap(([key, value]) => [`--${key}`, String(value)]);
    const replica = spawn(process.env.ZABRA_BINARY, ['serve', ...args], {
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    replica.said = '';
    replica.stderr.on('data', (text) => {
      replica.said = `${replica.said}${text}`.slice(-SAID_MAX);
    });
    return replica;
  }

  /** Starts another replica, which waits to be added as a member. Returns its index. */
  async join() {
    const at = this.ports.length;
    for (let starts = 1; ; starts += 1) {
      this.peers[at] = await portFree();
      this.ports[at] = await portFree();
      this.processes[at] = this.serve(at);
      try {
        await until(`replica ${at + 1} runs`, () => {
          this.look(at);
          return isThere(`${this.url(at)}/livez`);
        });
        return at;
      } catch (error) {
        if (starts === STARTS || !/ is in use on /.test(error.message)) {
          throw error;
        }
      }
    }
  }

  /** Where it finds the other replicas: a founder by its list, a later one by asking the founders. */
  others(at) {
    const founders = this.peers.slice(0, this.founders).map((port) => `127.0.0.1:${port}`);
    return at < this.founders
      ? Object.fromEntries(founders.map((address, i) => [`server.${i + 1}`, address]))
      : { join: founders.join(), advertisePeer: `127.0.0.1:${this.peers[at]}` };
  }

  /** Throws the replica's output if it has ended. */
  look(at) {
    const { exitCode, said } = this.processes[at];
    if (exitCode !== null) {
      throw new Error(`replica ${at + 1} has ended: ${said}`);
    }
  }

  url(at = 0) {
    return `http://127.0.0.1:${this.ports[at]}`;
  }

  isReady(port) {
    return isThere(`http://127.0.0.1:${port}/readyz`);
  }

  /** Connects a client other than the page. */
  async ask(method, target, { at = 0, ...rest } = {}) {
    const answer = await fetch(`${this.url(at)}${target}`, { method, ...rest });
    if (!answer.ok) {
      throw new Error(`${method} ${target}: ${answer.status} ${await answer.text()}`);
    }
    return answer;
  }

  create(path, data = '', more = {}) {
    const { query = '', ...rest } = more;
    return this.ask('PUT', `/znodes/v1${encodeURI(path)}?upsert=true&parents=true${query}`, {
      body: data,
      ...rest,
      headers: { 'Content-Type': 'application/octet-stream', ...rest.headers },
    });
  }

  /** The bytes of a znode, by a linearizable read. */
  async data(path) {
    const answer = await this.ask('GET', `/znodes/v1${encodeURI(path)}?consistency=linearizable`, {
      headers: { Accept: 'application/octet-stream' },
    });
    return Buffer.from(await answer.arrayBuffer());
  }

  async has(path) {
    const url = `${this.url()}/znodes/v1${encodeURI(path)}?consistency=linearizable`;
    return (await fetch(url, { method: 'HEAD' })).ok;
  }

  /** Kills a replica, like a crash. */
  async kill(at) {
    const process = this.processes[at];
    const ended = new Promise((resolve) => {
      process.once('exit', resolve);
    });
    process.kill('SIGKILL');
    await ended;
  }

  /**
   * Freezes a replica until SIGCONT. The signal is taken by one thread, when it has a core: until
   * then the others run on.
   */
  async freeze(at) {
    const { pid } = this.processes[at];
    process.kill(pid, 'SIGSTOP');
    await until(`replica ${at + 1} stands still`, () =>
      readdirSync(`/proc/${pid}/task`).every((thread) => isStopped(`/proc/${pid}/task/${thread}`)),
    );
  }

  async stop() {
    await Promise.all(this.processes.map((process) => end(process)));
    rmSync(this.directory, { recursive: true, force: true });
  }
}

function isStopped(thread) {
  try {
    return readFileSync(join(thread, 'stat'), 'utf8').includes(') T ');
  } catch {
    return false; // It has ended: the next look does not list it.
  }
}

async function isThere(url) {
  const answer = await fetch(url, {
    signal: AbortSignal.timeout(ANSWER_MS), // Another program may have taken the port.
  }).catch(() => undefined);
  return answer?.ok === true;
}

async function end(process) {
  if (process.exitCode !== null || process.signalCode !== null) {
    return;
  }
  const ended = new Promise((resolve) => {
    process.once('exit', resolve);
  });
  process.kill('SIGTERM');
  const late = setTimeout(() => process.kill('SIGKILL'), STOP_MS);
  await ended;
  clearTimeout(late);
}
