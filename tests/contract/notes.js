// Records requests and answers of these programs for exchanges.js, as tests/lib/exchange.c does.

import { closeSync, openSync, writeSync } from 'node:fs';
import { join } from 'node:path';

const EACH_MAX = 3;

export class Notes {
  constructor(name) {
    const directory = process.env.ZABRA_EXCHANGES;
    this.file = directory ? openSync(join(directory, `${name}.ndjson`), 'w') : undefined;
    this.seen = new Map();
  }

  /** True for the first few of a kind. */
  isDue(kind) {
    const times = (this.seen.get(kind) ?? 0) + 1;
    this.seen.set(kind, times);
    return this.file !== undefined && times <= EACH_MAX;
  }

  write(note) {
    const coded = Object.fromEntries(
      Object.entries(note).map(([key, value]) => [
        key,
        Buffer.isBuffer(value) ? value.toString('base64') : value,
      ]),
    );
    writeSync(this.file, `${JSON.stringify(coded)}\n`);
  }

  http(kind, request, answer) {
    if (this.isDue(kind)) {
      this.write({
        kind: answer.stream ? 'stream' : 'http',
        method: request.method,
        target: Buffer.from(request.target),
        headers: Buffer.from((request.headers ?? []).join('\r\n')),
        body: request.body ?? Buffer.alloc(0),
        head: answer.head,
        answer: answer.stream ? Buffer.alloc(0) : answer.answer,
      });
    }
  }

  message(kind, op, text) {
    if (this.isDue(kind)) {
      this.write({ kind: 'received', socket: 0, op, text: Buffer.from(text) });
    }
  }

  close() {
    if (this.file !== undefined) {
      closeSync(this.file);
    }
  }
}
