// The tree as far as it is open: what has been loaded of each opened znode, kept up to date by a watch
// of each, and the rows that this makes. Where not all children are loaded, the replica is asked for those
// that fit the filter. Knows no page: the view draws `rows`.

import { batch, computed, effect, type Signal, signal } from '@preact/signals';
import { always, Looks, type Seen } from '../../api/looks';
import type { Socket } from '../../api/socket';
import type { ChildEntry, Stat } from '../../api/types';
import { fits } from '../../format/glob';
import { childOf, compareNames, isSystem, nameOf, parentOf } from '../../format/path';
import { type Part, reaches, renewed, SEEK_MS, seekChildren } from './seek';

export const PAGE = 500; // Children of one request.
const PACE = { settle: 150, rest: 1_000 }; // Of looks at a directory that changes.

export type Sort = 'name' | 'mtime' | 'ctime' | 'size' | 'children';

/** What is known of an opened znode. */
interface Folder {
  stat: Stat | undefined;
  children: ChildEntry[]; // In the order of their names.
  after: string | undefined; // There are more behind this name.
  loading: boolean;
  stale: boolean; // A reload was requested while it was loading.
  error: Error | undefined;
  fresh: Set<string>; // Names that came while one was looking.
  found: Found | undefined; // As long as there is a filter, and not all is loaded.
  checks: Looks; // Of what was found.
}

/** What the replica has found that fits the filter. */
interface Found extends Part {
  filter: string;
  seeking: boolean;
  checked: string | undefined; // The check at hand has come to this path.
  stale: boolean; // The children have changed since it began.
  error: Error | undefined;
}

/** Why there are no rows below an opened znode. */
export type Note = 'loading' | 'empty' | 'filtered' | 'only_system' | 'seeking';

export type Row =
  | {
      kind: 'node';
      path: string;
      name: string;
      depth: number;
      entry: ChildEntry;
      open: boolean;
      fresh: boolean;
      position: number;
      siblings: number;
    }
  /** `total`: where it is known. */
  | { kind: 'more'; path: string; depth: number; loaded: number; total?: number }
  | { kind: 'note'; path: string; depth: number; note: Note }
  | { kind: 'error'; path: string; depth: number; error: Error };

const orders: Record<Sort, (a: Stat, b: Stat) => number> = {
  name: () => 0,
  mtime: (a, b) => b.mtime - a.mtime,
  ctime: (a, b) => b.ctime - a.ctime,
  size: (a, b) => b.dataLength - a.dataLength,
  children: (a, b) => b.numChildren - a.numChildren,
};

export class TreeModel {
  readonly filter = signal('');
  readonly sort: Signal<Sort> = signal('name');
  readonly system = signal(false);
  /** Whether rows can be marked, to do something with several. */
  readonly marking = signal(false);
  /** Paths of the marked, in the order of marking. */
  readonly marked: Signal<ReadonlySet<string>> = signal<ReadonlySet<string>>(new Set());
  /** Bumped when anything that rows are made of has changed. */
  private readonly version = signal(0);
  private readonly folders = new Map<string, Folder>();
  private readonly closers = new Map<string, () => void>();
  private readonly socket: Socket;
  private readonly seen: Seen;
  private readonly unfollow: () => void;
  private typed: ReturnType<typeof setTimeout> | undefined;

  readonly rows = computed<Row[]>(() => {
    this.version.value;
    return this.list();
  });

  constructor(socket: Socket, seen = always) {
    this.socket = socket;
    this.seen = seen;
    this.unfollow = effect(() => {
      this.filter.value;
      clearTimeout(this.typed);
      this.typed = setTimeout(() => this.seekAll(), SEEK_MS);
    });
  }

  isOpen(path: string): boolean {
    return this.folders.has(path);
  }

  open(path: string): void {
    if (this.isOpen(path)) {
      return;
    }
    const folder: Folder = {
      stat: undefined,
      children: [],
      after: undefined,
      loading: false,
      stale: false,
      error: undefined,
      fresh: new Set(),
      found: undefined,
      checks: new Looks(() => this.check(path, folder), PACE, this.seen),
    };
    this.folders.set(path, folder);
    this.follow(path);
    void this.more(path);
  }

  close(path: string): void {
    for (const one of [...this.folders.keys()]) {
      if (one === path || one.startsWith(path === '/' ? '/' : `${path}/`)) {
        this.closers.get(one)?.();
        this.closers.delete(one);
        this.folders.get(one)?.checks.stop();
        this.folders.delete(one);
      }
    }
    this.changed();
  }

  toggle(path: string): void {
    if (this.isOpen(path)) {
      this.close(path);
    } else {
      this.open(path);
    }
  }

  stop(): void {
    this.unfollow();
    clearTimeout(this.typed);
    this.close('/');
  }

  /** Marks it, or not any more. */
  mark(path: string): void {
    const marked = new Set(this.marked.peek());
    if (!marked.delete(path) && canBeMarked(path)) {
      marked.add(path);
    }
    this.setMarked(marked);
  }

  /** Marks all from one row to another, in whatever order they stand. */
  markRange(from: string, to: string): void {
    const rows = this.rows.peek();
    const [first = 0, last = 0] = [rowOf(rows, from), rowOf(rows, to)].sort((a, b) => a - b);
    const range = rows
      .slice(Math.max(0, first), last + 1)
      .flatMap((row) => (row.kind === 'node' && canBeMarked(row.path) ? [row.path] : []));
    this.setMarked(new Set([...this.marked.peek(), ...range]));
  }

  /** None, and no more marking. */
  unmark(): void {
    batch(() => {
      this.marked.value = new Set();
      this.marking.value = false;
    });
  }

  /** The next page, or the next that fit the filter. */
  async more(path: string): Promise<void> {
    const folder = this.folders.get(path);
    if (folder && this.isSought(folder)) {
      const { found } = folder;
      if (found?.after && !found.seeking) {
        await this.seekOn(path, folder, found);
      }
      return;
    }
    if (!folder || folder.loading || (folder.children.length > 0 && !folder.after)) {
      return;
    }
    await this.load(path, folder, async () => {
      const page = await this.page(path, folder.after);
      folder.children = folder.after ? [...folder.children, ...page.children] : page.children;
      folder.after = page.more ? page.after : undefined;
      folder.stat = page.stat;
    });
  }

  /** What is loaded, once more. */
  async refresh(path: string): Promise<void> {
    const folder = this.folders.get(path);
    if (!folder) {
      return;
    }
    if (folder.loading) {
      folder.stale = true;
      return;
    }
    const known = new Set(folder.children.map(({ name }) => name));
    const loaded = folder.children.length;
    await this.load(path, folder, async () => {
      const children: ChildEntry[] = [];
      let after: string | undefined;
      do {
        const page = await this.page(path, after);
        children.push(...page.children);
        after = page.more ? page.after : undefined;
        folder.stat = page.stat;
      } while (after && children.length < loaded);
      const wholly = folder.after === undefined;
      folder.fresh = new Set(
        children.filter(({ name }) => wholly && !known.has(name)).map(({ name }) => name),
      );
      folder.children = children;
      folder.after = after;
      this.dropMarks(path, folder);
    });
  }

  refreshAll(): void {
    for (const path of this.folders.keys()) {
      void this.refresh(path);
    }
  }

  // ---- Inside ----

  private setMarked(marked: ReadonlySet<string>): void {
    batch(() => {
      this.marked.value = marked;
      this.marking.value = true;
    });
  }

  /** What is not there any more is not marked. */
  private dropMarks(path: string, folder: Folder): void {
    if (folder.after !== undefined || this.marked.peek().size === 0) {
      return;
    }
    const names = new Set(folder.children.map(({ name }) => name));
    const kept = [...this.marked.peek()].filter(
      (one) => parentOf(one) !== path || names.has(nameOf(one)),
    );
    if (kept.length < this.marked.peek().size) {
      this.marked.value = new Set(kept);
    }
  }

  private page(path: string, after: string | undefined) {
    return this.socket.read('children', {
      path,
      with: 'stat',
      limit: PAGE,
      ...(after ? { after } : {}),
    });
  }

  private async load(path: string, folder: Folder, work: () => Promise<void>): Promise<void> {
    folder.loading = true;
    this.changed();
    try {
      await work();
      folder.error = undefined;
    } catch (error) {
      folder.error = error as Error;
    }
    folder.loading = false;
    if (this.folders.get(path) === folder) {
      this.changed();
      if (folder.stale) {
        folder.stale = false;
        await this.refresh(path);
      } else {
        this.seek(path, folder);
      }
    }
  }

  private seekAll(): void {
    for (const [path, folder] of this.folders) {
      this.seek(path, folder);
    }
  }

  /** Whether its children are those that the replica has found. */
  private isSought(folder: Folder): boolean {
    return this.filter.peek() !== '' && folder.after !== undefined;
  }

  private seek(path: string, folder: Folder): void {
    if (!this.isSought(folder)) {
      folder.found = undefined;
      return;
    }
    const filter = this.filter.peek();
    if (folder.found?.filter === filter && !folder.found.error) {
      folder.found.stale = true;
      folder.checks.soon();
      return;
    }
    const found: Found = {
      filter,
      entries: [],
      after: undefined,
      seeking: false,
      checked: undefined,
      stale: false,
      error: undefined,
    };
    folder.found = found;
    void this.seekOn(path, folder, found);
  }

  /** The next that fit, behind those that were found. */
  private async seekOn(path: string, folder: Folder, found: Found): Promise<void> {
    const { filter, after } = found;
    found.seeking = true;
    await this.during(folder, found, async () => {
      const part = await seekChildren(this.socket, path, filter, { enough: PAGE, after });
      found.entries = [...found.entries, ...part.entries];
      found.after = part.after;
    });
    found.seeking = false;
    this.changed();
  }

  /** What was found, once more, up to where the search has come: a part of it at a time. */
  private async check(path: string, folder: Folder): Promise<void> {
    const { found } = folder;
    if (!found) {
      return;
    }
    if (found.seeking) {
      folder.checks.soon();
      return;
    }
    const { filter, checked, after: until } = found;
    if (!checked) {
      found.stale = false;
    }
    await this.during(folder, found, async () => {
      const part = await seekChildren(this.socket, path, filter, { until, after: checked });
      found.entries = renewed(found.entries, path, checked, part);
      const whole = !part.after || (until !== undefined && reaches(path, part.after, until));
      found.checked = whole ? undefined : part.after;
      if (whole && found.after === until) {
        found.after = part.after;
      }
    });
    if (found.checked || found.stale) {
      folder.checks.soon();
    }
  }

  private async during(folder: Folder, found: Found, work: () => Promise<void>): Promise<void> {
    this.changed();
    try {
      await work();
      found.error = undefined;
    } catch (error) {
      found.error = error as Error;
    }
    if (folder.found === found) {
      this.changed();
    }
  }

  private follow(path: string): void {
    const looks = new Looks(() => this.refresh(path), PACE, this.seen);
    const unwatch = this.socket.watch({
      path,
      kind: 'persistent',
      onReset: () => looks.soon(),
      onChange: ({ event }) => {
        if (event === 'NodeDeleted' && path !== '/') {
          this.close(path);
        } else {
          looks.soon();
        }
      },
    });
    this.closers.set(path, () => {
      looks.stop();
      unwatch();
    });
  }

  private changed(): void {
    batch(() => {
      this.version.value += 1;
    });
  }

  private list(): Row[] {
    const rows: Row[] = [];
    const stat = this.folders.get('/')?.stat;
    const entry = { name: '/', ...(stat ? { stat } : {}) };
    rows.push({
      kind: 'node',
      path: '/',
      name: '/',
      depth: 0,
      entry,
      open: this.isOpen('/'),
      fresh: false,
      position: 1,
      siblings: 1,
    });
    // A stack of what is still to be listed: trees may be deep.
    const stack = this.isOpen('/') ? this.below('/', 1).reverse() : [];
    for (let row = stack.pop(); row; row = stack.pop()) {
      rows.push(row);
      if (row.kind === 'node' && row.open) {
        const below = this.below(row.path, row.depth + 1);
        for (let at = below.length - 1; at >= 0; at -= 1) {
          stack.push(below[at] as Row);
        }
      }
    }
    return rows;
  }

  /** The rows right below an opened znode. */
  private below(path: string, depth: number): Row[] {
    const folder = this.folders.get(path);
    if (!folder) {
      return [];
    }
    if (folder.error) {
      return [{ kind: 'error', path, depth, error: folder.error }];
    }
    const sought = this.filter.value !== '' && folder.after !== undefined;
    const shown = this.arrange(path, sought ? this.candidates(path, folder) : folder.children);
    const total = Math.max(folder.stat?.numChildren ?? 0, folder.children.length);
    const rows: Row[] = shown.map((entry, at) => {
      const child = childOf(path, entry.name);
      return {
        kind: 'node',
        path: child,
        name: entry.name,
        depth,
        entry,
        open: this.isOpen(child),
        fresh: folder.fresh.has(entry.name),
        position: at + 1,
        siblings: folder.after && !sought ? total : shown.length,
      };
    });
    if (sought) {
      rows.push(...this.endOfFound(path, depth, folder.found, rows.length));
    } else if (folder.after) {
      rows.push({ kind: 'more', path, depth, loaded: folder.children.length, total });
    } else if (rows.length === 0) {
      rows.push({ kind: 'note', path, depth, note: this.noteOf(folder) });
    }
    return rows;
  }

  /** What was found, and what is open; before anything was found, what is loaded. */
  private candidates(path: string, { children, found }: Folder): ChildEntry[] {
    if (found?.filter !== this.filter.value) {
      return children;
    }
    const names = new Set(found.entries.map(({ name }) => name));
    const open = children.filter(({ name }) => this.isOpen(childOf(path, name)));
    const others = open.filter(({ name }) => !names.has(name));
    return others.length === 0
      ? found.entries
      : [...found.entries, ...others].sort((a, b) => compareNames(a.name, b.name));
  }

  private endOfFound(path: string, depth: number, found: Found | undefined, shown: number): Row[] {
    if (found?.filter !== this.filter.value || found.seeking) {
      return [{ kind: 'note', path, depth, note: 'seeking' }];
    }
    if (found.error) {
      return [{ kind: 'error', path, depth, error: found.error }];
    }
    if (found.after) {
      return [{ kind: 'more', path, depth, loaded: found.entries.length }];
    }
    return shown === 0 ? [{ kind: 'note', path, depth, note: 'filtered' }] : [];
  }

  private noteOf(folder: Folder): Note {
    if (folder.loading) {
      return 'loading';
    }
    if (folder.children.length === 0) {
      return 'empty';
    }
    return this.filter.value ? 'filtered' : 'only_system';
  }

  /** Filtered and sorted. What is open stays, so that nothing vanishes from above its children. */
  private arrange(path: string, children: ChildEntry[]): ChildEntry[] {
    const wanted = this.filter.value;
    const shown = children.filter(({ name }) => {
      const child = childOf(path, name);
      const hidden = path === '/' && isSystem(child) && !this.system.value && !this.isOpen(child);
      return !hidden && (this.isOpen(child) || fits(name, wanted));
    });
    const order = orders[this.sort.value];
    return this.sort.value === 'name'
      ? shown
      : shown.sort((a, b) => (a.stat && b.stat ? order(a.stat, b.stat) : a.stat ? -1 : 1));
  }
}

/** Not what every tree has. */
export function canBeMarked(path: string): boolean {
  return path !== '/' && !isSystem(path);
}

/** The row of a znode; -1: it is not among them. */
export function rowOf(rows: Row[], path: string): number {
  return rows.findIndex((row) => row.kind === 'node' && row.path === path);
}

/** The next row, from `from` on and around, whose name begins so. */
export function rowByName(rows: Row[], start: string, from: number): number {
  const wanted = start.toLowerCase();
  for (let step = 0; step < rows.length; step += 1) {
    const at = (from + step) % rows.length;
    const row = rows[at];
    if (row?.kind === 'node' && nameOf(row.path).toLowerCase().startsWith(wanted)) {
      return at;
    }
  }
  return -1;
}
