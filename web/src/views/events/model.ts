// The received events: several subscriptions in one stream, bounded. Thousands of events may
// come in a second: they are only put aside here, and shown together some times a second. A drawing does no
// more for a list of thousands than for a short one, and all that it shows is of one moment.

import { batch, type Signal, signal } from '@preact/signals';
import type { ApiError } from '../../api/error';
import type { Link, Socket } from '../../api/socket';
import type { Change, WatchKind } from '../../api/types';
import { Newest } from './lines';

export const KEPT_MAX = 10_000; // Lines.
export const HELD_MAX = KEPT_MAX - 1; // That come while it is paused; one tells of the others.
export const SUBSCRIPTIONS_MAX = 16;

export const KINDS = ['recursive', 'persistent', 'data', 'exists', 'children'] as const;

/** Used up by the first event. */
export function isOnce(kind: WatchKind): boolean {
  return kind !== 'recursive' && kind !== 'persistent';
}

export interface Wanted {
  kind: WatchKind;
  path: string;
}

export interface Subscription extends Wanted {
  key: string;
  state: 'starting' | 'watching' | 'fired' | 'refused';
  error?: ApiError;
  count: number;
}

export type Line = { seq: number; at: number } & (
  | { kind: 'event'; change: Change; of: string[] }
  /** Events were lost. */
  | { kind: 'gap'; of: string }
  /** The next events are a difference, without the steps in between. */
  | { kind: 'diff'; of: string }
  /** The replica is lost; another one continues. */
  | { kind: 'lost' }
  | { kind: 'back'; replica: string }
  /** So many were thrown away, for there were too many while it was paused. */
  | { kind: 'skipped'; count: number }
);

type EventLine = Extract<Line, { kind: 'event' }>;

/** What one drawing shows. */
export interface Shown {
  /** Those that fit the filter; the same list is longer at the next drawing. */
  lines: Newest<Line>;
  /** Lines that are kept, whether they fit or not. */
  kept: number;
  /** Lines that wait for the end of the pause. */
  held: number;
  /** Events since the start, the thrown away included. */
  total: number;
}

/** Without what `add` knows itself. */
type News =
  | { kind: 'event'; change: Change; of: string[] }
  | { kind: 'gap' | 'diff'; of: string }
  | { kind: 'lost' }
  | { kind: 'back'; replica: string };

export function keyOf({ kind, path }: Wanted): string {
  return `${kind}:${path}`;
}

/** "recursive:/app"; undefined: it is none. */
export function parseWanted(text: string): Wanted | undefined {
  const at = text.indexOf(':');
  const kind = KINDS.find((one) => one === text.slice(0, at));
  const path = text.slice(at + 1);
  return kind && path.startsWith('/') ? { kind, path } : undefined;
}

export function matches(line: Line, filter: string): boolean {
  if (line.kind !== 'event' || filter === '') {
    return true; // What tells of something missing is never hidden.
  }
  const { path, event } = line.change;
  return path.toLowerCase().includes(filter) || event.toLowerCase().includes(filter);
}

/** As other clients receive it, with additions of this page. */
function plain(line: Line): object {
  const at = new Date(line.at).toISOString();
  switch (line.kind) {
    case 'event':
      return { at, ...line.change, watches: undefined };
    case 'gap':
    case 'diff':
      return { at, event: line.kind, watch: line.of };
    case 'skipped':
      return { at, event: 'skipped', count: line.count };
    case 'lost':
      return { at, event: 'replica-lost' };
    case 'back':
      return { at, event: 'resumed', replica: line.replica };
  }
}

export function ndjson(lines: readonly Line[]): string {
  return lines.map((line) => `${JSON.stringify(plain(line))}\n`).join('');
}

interface Host {
  now(): number;
  /** Calls once, soon: when the page is drawn. */
  soon(act: () => void): void;
}

export class EventsModel {
  readonly subscriptions: Signal<Subscription[]> = signal([]);
  readonly paused = signal(false);
  readonly shown: Signal<Shown>;

  private readonly socket: Pick<Socket, 'watch'>;
  private readonly host: Host;
  private readonly closers = new Map<string, () => void>();
  private readonly counts = new Map<string, number>(); // Of events since the last drawing.
  private readonly diffed = new Set<string>(); // Those of which a difference is being told.
  private readonly known = new Map<string, EventLine>(); // The newest, by what they tell.
  private readonly kept = new Newest<Line>(KEPT_MAX);
  private fitting = new Newest<Line>(KEPT_MAX); // Of the kept, those that fit the filter.
  private filter = '';
  private fresh: Line[] = []; // To be shown at the next drawing, or after the pause.
  private skipped = 0; // Thrown away since `fresh` began.
  private events = 0;
  private seq = 0;
  private drawing = false;
  private lost: boolean | undefined; // undefined: it was never live.

  constructor(socket: Pick<Socket, 'watch'>, host: Host) {
    this.socket = socket;
    this.host = host;
    this.shown = signal(this.state());
  }

  /** These and no others; running subscriptions are not touched. */
  want(wanted: Wanted[]): void {
    const keys = new Set(wanted.map(keyOf));
    for (const { key } of this.subscriptions.peek()) {
      if (!keys.has(key)) {
        this.drop(key);
      }
    }
    for (const one of wanted.slice(0, SUBSCRIPTIONS_MAX)) {
      if (!this.subscriptions.peek().some(({ key }) => key === keyOf(one))) {
        this.subscribe(one);
      }
    }
  }

  /** Once more: it has fired, or was refused. */
  again(key: string): void {
    const one = this.subscriptions.peek().find((subscription) => subscription.key === key);
    if (one) {
      this.drop(key);
      this.subscribe(one);
    }
  }

  pause(on: boolean): void {
    this.paused.value = on;
    if (!on) {
      this.draw();
    }
  }

  /** Shows what fits this alone, in lower case; what does not is kept. */
  fit(filter: string): void {
    if (filter === this.filter) {
      return;
    }
    this.filter = filter;
    this.fitting = new Newest(KEPT_MAX);
    for (const line of this.kept.list()) {
      if (matches(line, filter)) {
        this.fitting.push(line);
      }
    }
    this.shown.value = this.state();
  }

  clear(): void {
    this.fresh = [];
    this.skipped = 0;
    this.kept.clear();
    this.fitting.clear();
    this.known.clear();
    this.shown.value = this.state();
  }

  /** Of the connection: what it means for the stream is a line in it. */
  follow(link: Link, replica: string): void {
    const lost = link !== 'live';
    if (lost && this.lost === false && this.closers.size > 0) {
      this.lost = true;
      this.add({ kind: 'lost' });
    } else if (!lost) {
      if (this.lost) {
        this.add({ kind: 'back', replica });
      }
      this.lost = false;
    }
  }

  stop(): void {
    for (const key of [...this.closers.keys()]) {
      this.drop(key);
    }
  }

  // ---- Subscriptions ----

  private subscribe({ kind, path }: Wanted): void {
    const key = keyOf({ kind, path });
    const fresh: Subscription = { kind, path, key, state: 'starting', count: 0 };
    this.subscriptions.value = [...this.subscriptions.peek(), fresh];
    const close = this.socket.watch({
      path,
      kind,
      onReady: (resumed) => {
        this.change(key, { state: 'watching' });
        this.tellDiff(key, resumed === 'diffed');
      },
      onRefused: (error) => this.change(key, { state: 'refused', error }),
      onReset: () => this.add({ kind: 'gap', of: key }),
      onChange: (change) => {
        this.tellDiff(key, change.diff === true);
        this.take(key, change);
        if (change.end) {
          this.diffed.delete(key);
        }
        if (isOnce(kind)) {
          this.close(key);
          this.change(key, { state: 'fired' });
        }
      },
    });
    this.closers.set(key, close);
  }

  private close(key: string): void {
    this.closers.get(key)?.();
    this.closers.delete(key);
  }

  private drop(key: string): void {
    this.close(key);
    this.subscriptions.value = this.subscriptions.peek().filter((one) => one.key !== key);
  }

  private change(key: string, more: Partial<Subscription>): void {
    this.subscriptions.value = this.subscriptions
      .peek()
      .map((one) => (one.key === key ? { ...one, ...more } : one));
  }

  // ---- Lines ----

  /** Several subscriptions may receive one event: at once, or, for missed events, one after the other. */
  private take(key: string, change: Change): void {
    const what = `${change.zxid} ${change.event} ${change.path}`;
    const line = this.known.get(what);
    this.counts.set(key, (this.counts.get(key) ?? 0) + 1);
    if (line && !line.of.includes(key)) {
      line.of.push(key);
      return;
    }
    this.events += 1;
    this.know(what, this.add({ kind: 'event', change, of: [key] }) as EventLine);
  }

  private know(what: string, line: EventLine): void {
    this.known.delete(what);
    this.known.set(what, line);
    if (this.known.size > KEPT_MAX) {
      const [oldest = ''] = this.known.keys();
      this.known.delete(oldest);
    }
  }

  /** Once, before the first of it. */
  private tellDiff(key: string, diff: boolean): void {
    if (diff && !this.diffed.has(key)) {
      this.diffed.add(key);
      this.add({ kind: 'diff', of: key });
    } else if (!diff) {
      this.diffed.delete(key);
    }
  }

  private add(news: News): Line {
    this.seq += 1;
    const line: Line = { ...news, seq: this.seq, at: this.host.now() };
    this.fresh.push(line);
    if (this.fresh.length >= HELD_MAX * 2) {
      this.skip();
    }
    if (!this.drawing) {
      this.drawing = true;
      this.host.soon(() => this.draw());
    }
    return line;
  }

  /** The oldest make room, rarely many instead of often one. */
  private skip(): void {
    const over = this.fresh.length - HELD_MAX;
    this.skipped += over;
    this.fresh = this.fresh.slice(over);
  }

  private draw(): void {
    this.drawing = false;
    if (this.fresh.length > HELD_MAX) {
      this.skip();
    }
    if (!this.paused.peek()) {
      this.keepFresh();
    }
    batch(() => {
      this.shown.value = this.state();
      this.tellCounts();
    });
  }

  private keepFresh(): void {
    if (this.skipped > 0) {
      const at = this.fresh[0]?.at ?? this.host.now();
      this.keep({ kind: 'skipped', count: this.skipped, seq: -this.seq, at });
    }
    for (const line of this.fresh) {
      this.keep(line);
    }
    this.fresh = [];
    this.skipped = 0;
  }

  private keep(line: Line): void {
    const oldest = this.kept.push(line);
    if (oldest && this.fitting.at(0) === oldest) {
      this.fitting.shift();
    }
    if (matches(line, this.filter)) {
      this.fitting.push(line);
    }
  }

  private state(): Shown {
    return {
      lines: this.fitting,
      kept: this.kept.length,
      held: this.paused.peek() ? this.fresh.length + this.skipped : 0,
      total: this.events,
    };
  }

  private tellCounts(): void {
    if (this.counts.size > 0) {
      this.subscriptions.value = this.subscriptions
        .peek()
        .map((one) => ({ ...one, count: one.count + (this.counts.get(one.key) ?? 0) }));
      this.counts.clear();
    }
  }
}
