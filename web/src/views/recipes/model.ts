// A directory that is drawn, and kept up to date: one watch of it, and one read for all changes that
// come together. Knows no page.

import { type Signal, signal } from '@preact/signals';
import { ApiError } from '../../api/error';
import type { Socket } from '../../api/socket';
import type { ChildEntry, Stat } from '../../api/types';
import { asUtf8, fromBase64 } from '../../format/bytes';
import { childOf } from '../../format/path';
import { compare, type Entry } from './diary';
import { type Directory, guess, INNER, type Inner, type Kind, labelOf } from './shape';

export const LISTED = 500; // Children of one directory that are drawn.
const SETTLE_MS = 80; // Changes that come together are looked at together.
const SETTLE_MAX_MS = 400; // So much apart are two looks at what changes all the time.
const TEXT_MAX = 2_048; // Bytes of data that are shown.
const TEXTS_MAX = 100; // Asked for at once.
const DIARY_MAX = 20;

/** All of it as of one zxid. */
export interface Picture extends Directory {
  /** How many children there are; more than `children` has when there are too many. */
  total: number;
  inner: Partial<Record<Inner, { children: ChildEntry[]; total: number }>>;
  /** As it was asked for, or as the names tell; undefined: nothing that is known. */
  kind: Kind | undefined;
}

/** `undefined` in both: it is still being read. */
export interface Loaded {
  picture?: Picture;
  error?: ApiError;
}

interface Options {
  /** Instead of a guess. */
  kind?: Kind | undefined;
  /** While it says no nothing is asked; wake() says that it may be asked again. */
  isSeen?: () => boolean;
}

interface Text {
  mzxid: string;
  text: string | undefined; // undefined: it is no text, or may not be read.
}

export class RecipeModel {
  readonly loaded: Signal<Loaded> = signal({});
  /** What is in znodes, as far as it is short text, by their paths. */
  readonly texts: Signal<Map<string, Text>> = signal(new Map());
  readonly path: string;
  /** What has happened while one looked, the newest first. */
  readonly diary: Signal<Entry[]> = signal([]);
  private readonly socket: Socket;
  private readonly options: Options;
  /** The last one: a recipe that has lost all children, or is gone, is what it was. */
  kind: Kind | undefined;
  private unwatch: () => void = () => undefined;
  private deep = false; // All below it is watched.
  private timer: ReturnType<typeof setTimeout> | undefined;
  private last = 0;
  private reading = false;
  private stale = false; // Something has changed since the read began.
  private ended = false;

  constructor(socket: Socket, path: string, options: Options = {}) {
    this.socket = socket;
    this.path = path;
    this.options = options;
    this.kind = options.kind;
  }

  start(): void {
    this.watch(false);
    void this.read();
  }

  again(): void {
    this.soon();
  }

  wake(): void {
    if (this.stale) {
      this.soon();
    }
  }

  stop(): void {
    this.ended = true;
    clearTimeout(this.timer);
    this.unwatch();
  }

  // ---- Inside ----

  /** Of what is a recipe all that is below is of interest; of others, which may be large, it is not. */
  private watch(deep: boolean): void {
    this.unwatch();
    this.deep = deep;
    this.unwatch = this.socket.watch({
      path: this.path,
      kind: deep ? 'recursive' : 'persistent',
      onChange: () => this.soon(),
      onReset: () => this.soon(),
    });
  }

  private soon(): void {
    if (this.reading || this.options.isSeen?.() === false) {
      this.stale = true;
      return;
    }
    this.timer ??= setTimeout(
      () => {
        this.timer = undefined;
        void this.read();
      },
      Math.max(SETTLE_MS, this.last + SETTLE_MAX_MS - Date.now()),
    );
  }

  private async read(): Promise<void> {
    this.reading = true;
    this.stale = false;
    this.last = Date.now();
    const loaded = await this.look().then(
      (picture): Loaded => ({ picture }),
      (error: ApiError): Loaded => ({ error }),
    );
    this.reading = false;
    if (!this.ended) {
      this.take(loaded);
    }
  }

  private take(loaded: Loaded): void {
    const before = this.loaded.peek().picture;
    if (before && loaded.picture) {
      this.note(before, loaded.picture);
    }
    this.loaded.value = loaded;
    if (loaded.picture?.kind !== undefined && !this.deep) {
      this.watch(true);
      this.stale = true; // It may have changed before this watch was there.
    }
    if (this.stale) {
      this.soon();
    }
    if (loaded.picture?.kind !== undefined) {
      const stats = described(loaded.picture);
      this.forget(stats);
      this.readTexts([...stats]).catch(() => undefined); // It is drawn without.
    }
  }

  private async look(): Promise<Picture> {
    const list = (path: string) => ({ op: 'children', path, with: 'stat', limit: LISTED });
    const { results } = await this.socket.read('multi', {
      ops: [this.path, ...INNER.map((name) => childOf(this.path, name))].map(list),
    });
    const [top, ...within] = results;
    if (!top?.ok) {
      throw new ApiError(top?.error ?? {});
    }
    const { stat, children = [] } = top;
    const inner: Picture['inner'] = {};
    INNER.forEach((name, at) => {
      const one = within[at];
      if (one?.ok) {
        inner[name] = { children: one.children ?? [], total: one.stat.numChildren };
      }
    });
    await this.readTexts([[this.path, stat]]);
    const text = this.texts.peek().get(this.path)?.text;
    const directory = { path: this.path, stat, text, children };
    return { ...directory, total: stat.numChildren, inner, kind: this.kindOf(directory) };
  }

  private kindOf(directory: Directory): Kind | undefined {
    const known = directory.children.length > 0 ? undefined : this.kind;
    this.kind = this.options.kind ?? known ?? guess(directory) ?? this.kind;
    return this.kind;
  }

  private note(before: Picture, after: Picture): void {
    const texts = this.texts.peek();
    const nameOfOne = (path: string) => labelOf(path, texts.get(path)?.text);
    const entry = compare(before, after, nameOfOne);
    if (entry) {
      this.diary.value = [entry, ...this.diary.peek()].slice(0, DIARY_MAX);
    }
  }

  /** What is in these, as far as it is short, and new or changed since it was read. */
  private async readTexts(znodes: [string, Stat][]): Promise<void> {
    const known = this.texts.peek();
    const asked = znodes
      .filter(([, { dataLength }]) => dataLength > 0 && dataLength <= TEXT_MAX)
      .filter(([path, { mzxid }]) => known.get(path)?.mzxid !== mzxid)
      .slice(0, TEXTS_MAX);
    if (asked.length === 0) {
      return;
    }
    const ops = asked.map(([path]) => ({ op: 'get', path, dataformat: 'base64' }));
    const reply = await this.socket.read('multi', { ops });
    const texts = new Map(known);
    asked.forEach(([path, { mzxid }], at) => {
      const one = reply.results[at];
      const text = one?.ok ? { mzxid: one.stat.mzxid, text: textOf(one.data64) } : undefined;
      texts.set(path, text ?? { mzxid, text: undefined });
    });
    this.texts.value = texts;
  }

  /** Of what is gone nothing is kept. */
  private forget(stats: Map<string, Stat>): void {
    const known = this.texts.peek();
    const kept = [...known].filter(([path]) => path === this.path || stats.has(path));
    if (kept.length < known.size) {
      this.texts.value = new Map(kept);
    }
  }
}

/** Those of which the data is shown. */
function described({ path, children, inner }: Picture): Map<string, Stat> {
  const stats = new Map<string, Stat>();
  const add = (folder: string, list: ChildEntry[]) => {
    for (const { name, stat } of list) {
      if (stat) {
        stats.set(childOf(folder, name), stat);
      }
    }
  };
  add(path, children);
  add(childOf(path, 'members'), inner.members?.children ?? []);
  return stats;
}

function textOf(data64 = ''): string | undefined {
  const bytes = fromBase64(data64);
  return bytes.length <= TEXT_MAX ? asUtf8(bytes) : undefined;
}
