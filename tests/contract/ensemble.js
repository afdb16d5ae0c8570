// Replicas for these tests: `zabra dev` on free ports of loopback, in a temporary directory.

import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { portFree } from '../lib/ports.mjs';
import { ask } from './client.js';

const START_MS = 200000;
const STOP_MS = 60000;
const LOOK_MS = 50;
export const PEER_OFFSET = 1000;

function wait(ms) {
  return new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
}

export class Ensemble {
  static async start(count, keys) {
    const ensemble = new Ensemble();
    const base = await portFree(count, PEER_OFFSET);
    ensemble.ports = Array.from({ length: count }, (_, at) => base + at);
    ensemble.directory = mkdtempSync(join(tmpdir(), 'zabra-contract-'));
    const settings = Object.entries(keys).flatMap(([key, value]) => [`--${key}`, String(value)]);
    ensemble.process = spawn(
      process.env.ZABRA_BINARY,
      [
        'dev',
        '--nodes',
        String(count),
        '--data',
        ensemble.directory,
        '--port',
        String(base),
        ...settings,
      ],
      { stdio: ['ignore', 'ignore', 'inherit'] },
    );
    ensemble.ended = new Promise((resolve) => {
      ensemble.process.once('exit', resolve);
    });
    try {
      await ensemble.waitReady();
    } catch (error) {
      await ensemble.stop();
      throw error;
    }
    return ensemble;
  }

  async waitReady() {
    const end = Date.now() + START_MS;
    for (const port of this.ports) {
      while (!(await this.isReady(port))) {
        if (Date.now() > end || this.process.exitCode !== null) {
          throw new Error(`the replica at ${port} is not ready`);
        }
        await wait(LOOK_MS);
      }
    }
  }

  async isReady(port) {
    const answer = await ask(port, { method: 'GET', target: '/readyz' }).catch(() => undefined);
    return answer?.status === 200;
  }

  /** Log lines that no request of a client may cause. */
  complaints() {
    return readdirSync(this.directory)
      .filter((name) => name.endsWith('.log'))
      .flatMap((name) =>
        readFileSync(join(this.directory, name), 'utf8')
          .split('\n')
          .filter((line) => /assert|Sanitizer|fatal/i.test(line)),
      );
  }

  async stop() {
    this.process.kill('SIGTERM');
    const late = setTimeout(() => this.process.kill('SIGKILL'), STOP_MS);
    await this.ended;
    clearTimeout(late);
    rmSync(this.directory, { recursive: true, force: true });
  }
}
