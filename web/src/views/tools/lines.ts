// The lines of an export while they come: the first, the last, how many. Knows no page.

import type { ExportEnd, ExportHead } from '../../api/types';

const NEWLINE = 10;
const SHORT = 20_000; // The first and the last line hold nothing but a path and numbers.

export class Lines {
  bytes = 0;
  /** Whole ones. */
  count = 0;
  private first: string | undefined;
  private last: string | undefined;
  private rest: Uint8Array[] = []; // Behind the last end of a line.
  private restBytes = 0;

  take(chunk: Uint8Array): void {
    this.bytes += chunk.length;
    let from = 0;
    for (let at = chunk.indexOf(NEWLINE); at >= 0; at = chunk.indexOf(NEWLINE, from)) {
      this.keep(chunk.subarray(from, at));
      this.end();
      from = at + 1;
    }
    this.keep(chunk.subarray(from));
  }

  /** undefined: it is none. */
  get head(): ExportHead | undefined {
    const head = parse(this.first) as ExportHead | undefined;
    return head?.export === 1 ? head : undefined;
  }

  /** undefined: the export was cut off. */
  get tail(): ExportEnd | undefined {
    const tail = parse(this.last) as ExportEnd | undefined;
    return tail?.end === true && this.restBytes === 0 ? tail : undefined;
  }

  /** What the last line says went wrong. */
  get error(): object | undefined {
    return (parse(this.last) as { error?: object } | undefined)?.error;
  }

  private keep(part: Uint8Array): void {
    this.restBytes += part.length;
    if (part.length > 0 && this.restBytes <= SHORT) {
      this.rest.push(part);
    }
  }

  private end(): void {
    const decoder = new TextDecoder();
    const text = this.rest.map((part) => decoder.decode(part, { stream: true })).join('');
    this.last = this.restBytes <= SHORT ? text : undefined;
    this.first ??= this.count === 0 ? this.last : undefined;
    this.count += 1;
    this.rest = [];
    this.restBytes = 0;
  }
}

function parse(line: string | undefined): unknown {
  try {
    return line === undefined ? undefined : JSON.parse(line);
  } catch {
    return undefined;
  }
}
