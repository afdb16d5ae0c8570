// The tree as far as it is open: what has been loaded of each opened znode, kept up to date by a watch
// of each, and the rows that this makes. Knows no page: the view draws `rows`.

import { batch, computed, type Signal, signal } from '@preact/signals';
import type { Socket } from '../../api/socket';
import type { ChildEntry, Stat } from '../../api/types';
import { childOf, isSystem, nameOf } from '../../format/path';

export const PAGE = 500; // Children of one request.
const SETTLE_MS = 150; // Changes that come together are looked at together.
const SETTLE_MAX_MS = 1_000; // So much apart are two looks at a directory that changes all the time.

export type Sort = 'name' | 'mtime' | 'ctime' | 'size' | 'children';

/** What is known of an opened znode. */
interface Folder {
  stat: Stat | undefined;
  children: ChildEntry[]; // In the order of their names.
  after: string | undefined; // There are more behind this name.
  loading: boolean;
  error: Error | undefined;
  fresh: Set<string>; // Names that came while one was looking.
}

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
  | { kind: 'more'; path: string; depth: number; loaded: number; total: number }
  | { kind: 'note'; path: string; depth: number; note: 'loading' | 'empty' | 'filtered' }
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
  /** Bumped when anything that rows are made of has changed. */
  private readonly version = signal(0);
  private readonly folders = new Map<string, Folder>();
  private readonly closers = new Map<string, () => void>();
  private readonly socket: Socket;

  readonly rows = computed<Row[]>(() => {
    this.version.value;
    return this.list();
  });

  constructor(socket: Socket) {
    this.socket = socket;
  }

  isOpen(path: string): boolean {
    return this.folders.has(path);
  }

  open(path: string): void {
    if (this.isOpen(path)) {
      return;
    }
    this.folders.set(path, {
      stat: undefined,
      children: [],
      after: undefined,
      loading: false,
      error: undefined,
      fresh: new Set(),
    });
    this.follow(path);
    void this.more(path);
  }

  close(path: string): void {
    for (const one of [...this.folders.keys()]) {
      if (one === path || one.startsWith(path === '/' ? '/' : `${path}/`)) {
        this.closers.get(one)?.();
        this.closers.delete(one);
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
    this.close('/');
  }

  /** The next page. */
  async more(path: string): Promise<void> {
    const folder = this.folders.get(path);
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
    if (!folder || folder.loading) {
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
    });
  }

  refreshAll(): void {
    for (const path of this.folders.keys()) {
      void this.refresh(path);
    }
  }

  // ---- Inside ----

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
    }
  }

  private follow(path: string): void {
    let timer: ReturnType<typeof setTimeout> | undefined;
    let last = 0;
    const look = () => {
      timer = undefined;
      last = Date.now();
      void this.refresh(path);
    };
    const soon = () => {
      timer ??= setTimeout(look, Math.max(SETTLE_MS, last + SETTLE_MAX_MS - Date.now()));
    };
    const unwatch = this.socket.watch({
      path,
      kind: 'persistent',
      onReset: soon,
      onChange: ({ event }) => {
        if (event === 'NodeDeleted' && path !== '/') {
          this.close(path);
        } else {
          soon();
        }
      },
    });
    this.closers.set(path, () => {
      clearTimeout(timer);
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
    const shown = this.arrange(path, folder.children);
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
        siblings: folder.after ? total : shown.length,
      };
    });
    if (folder.after) {
      rows.push({ kind: 'more', path, depth, loaded: folder.children.length, total });
    } else if (rows.length === 0) {
      const note = folder.loading ? 'loading' : folder.children.length > 0 ? 'filtered' : 'empty';
      rows.push({ kind: 'note', path, depth, note });
    }
    return rows;
  }

  /** Filtered and sorted. What is open stays, so that nothing vanishes from above its children. */
  private arrange(path: string, children: ChildEntry[]): ChildEntry[] {
    const wanted = this.filter.value.toLowerCase();
    const shown = children.filter(({ name }) => {
      const child = childOf(path, name);
      const hidden = path === '/' && isSystem(child) && !this.system.value && !this.isOpen(child);
      return !hidden && (this.isOpen(child) || name.toLowerCase().includes(wanted));
    });
    const order = orders[this.sort.value];
    return this.sort.value === 'name'
      ? shown
      : shown.sort((a, b) => (a.stat && b.stat ? order(a.stat, b.stat) : a.stat ? -1 : 1));
  }
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
