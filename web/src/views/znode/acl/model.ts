// An ACL that is being changed: its entries, what the caller would lose by it, and saving it as the one
// that was seen. Knows no page.

import { computed, signal } from '@preact/signals';
import type { ApiError } from '../../../api/error';
import { requestKey } from '../../../api/key';
import type { Socket } from '../../../api/socket';
import type { AclEntry, Perm, Stat, Whoami } from '../../../api/types';
import { toBase64 } from '../../../format/bytes';
import { sha1 } from '../../../format/sha1';

export const PERMS: Perm[] = ['read', 'write', 'create', 'delete', 'admin'];

/** `auth`: the saving user, as the replica knows it. */
export interface Entry {
  scheme: AclEntry['scheme'] | 'auth';
  id: string;
  perms: Perm[];
}

export interface SeenAcl {
  acl: AclEntry[];
  aversion: number;
  stat: Pick<Stat, 'czxid'>;
}

/** Changes an ACL that is still `seen`: a znode that was made again has another one, of the same number
 * of changes. */
export type SaveAcl = (path: string, acl: object[], seen: SeenAcl, key: string) => Promise<unknown>;

export function sameAcl(a: SeenAcl, b: SeenAcl): boolean {
  return a.aversion === b.aversion && a.stat.czxid === b.stat.czxid;
}

export function keyOf({ scheme, id }: Pick<Entry, 'scheme' | 'id'>): string {
  return `${scheme}:${id}`;
}

/** As the replica derives it from the credentials. */
export function digestId(user: string, password: string): string {
  return `${user}:${toBase64(sha1(new TextEncoder().encode(`${user}:${password}`)))}`;
}

/** Its hash is not shown, so the entry cannot be saved. */
export function isMasked({ scheme, id }: Pick<Entry, 'scheme' | 'id'>): boolean {
  return scheme === 'digest' && id.endsWith(':x');
}

// ---- The identity of an entry ----

function bitsOf(address: string): number | undefined {
  const parts = address.split('.').map(Number);
  const sound = parts.length === 4 && parts.every((part) => part >= 0 && part <= 255);
  return sound ? parts.reduce((bits, part) => bits * 256 + part, 0) : undefined;
}

/** Networks of IPv4; of IPv6 only the very address. */
function isWithin(address: string, network: string): boolean {
  const [base = '', length = '32'] = network.split('/');
  const [a, b] = [bitsOf(address), bitsOf(base)];
  if (a === undefined || b === undefined) {
    return address === network;
  }
  const size = 2 ** (32 - Number(length));
  return Math.floor(a / size) === Math.floor(b / size);
}

function means({ scheme, id }: Entry, who: Whoami): boolean {
  switch (scheme) {
    case 'world':
      return true;
    case 'auth':
      return who.authenticated;
    case 'ip':
      return isWithin(who.address, id);
    case 'digest':
    case 'x509':
      return who.ids.some((one) => one.scheme === scheme && one.id === id);
  }
}

/** The permissions of an identity by these entries. */
export function permsOf(entries: Entry[], who: Whoami): Perm[] {
  const granted = new Set(
    entries.filter((entry) => means(entry, who)).flatMap(({ perms }) => perms),
  );
  return PERMS.filter((perm) => who.super || granted.has(perm));
}

function copyOf(acl: AclEntry[]): Entry[] {
  return acl.map(({ scheme, id, perms }) => ({ scheme, id, perms: [...perms] }));
}

function textOf(entries: Entry[]): string {
  return JSON.stringify(
    entries.map((entry) => [keyOf(entry), PERMS.filter((one) => entry.perms.includes(one))]),
  );
}

export class AclDraft {
  readonly path: string;
  readonly base;
  readonly entries;
  readonly theirs = signal<SeenAcl | undefined>(undefined);
  readonly problem = signal<ApiError | undefined>(undefined);
  readonly busy = signal(false);

  readonly dirty = computed(
    () => textOf(this.entries.value) !== textOf(copyOf(this.base.value.acl)),
  );

  private readonly socket: Pick<Socket, 'read'>;
  private readonly send: SaveAcl;
  private key: string | undefined; // Of a request whose outcome is unknown.

  constructor(path: string, seen: SeenAcl, socket: Pick<Socket, 'read'>, send: SaveAcl) {
    this.path = path;
    this.socket = socket;
    this.send = send;
    this.base = signal(seen);
    this.entries = signal<Entry[]>(copyOf(seen.acl));
  }

  toggle(at: number, perm: Perm): void {
    this.change(
      this.entries.peek().map((entry, index) => {
        if (index !== at) {
          return entry;
        }
        const had = entry.perms.includes(perm);
        const perms = had ? entry.perms.filter((one) => one !== perm) : [...entry.perms, perm];
        return { ...entry, perms };
      }),
    );
  }

  remove(at: number): void {
    this.change(this.entries.peek().filter((_, index) => index !== at));
  }

  /** False: there is one for them already. */
  add(entry: Entry): boolean {
    const fresh = !this.entries.peek().some((one) => keyOf(one) === keyOf(entry));
    if (fresh) {
      this.change([...this.entries.peek(), entry]);
    }
    return fresh;
  }

  /** What the caller may do now, and could not any more. */
  lost(who: Whoami): Perm[] {
    const after = permsOf(this.entries.value, who);
    return permsOf(copyOf(this.base.value.acl), who).filter((perm) => !after.includes(perm));
  }

  /** The list was read again. */
  observe(seen: SeenAcl): void {
    if (sameAcl(seen, this.base.peek()) || this.busy.peek()) {
      return;
    }
    if (this.dirty.peek() && textOf(copyOf(seen.acl)) !== textOf(this.entries.peek())) {
      this.theirs.value = seen;
    } else {
      this.base.value = seen;
      this.theirs.value = undefined;
      this.entries.value = copyOf(seen.acl);
    }
  }

  /** Mine is to take the place of theirs. */
  keepMine(): void {
    this.base.value = this.theirs.peek() ?? this.base.peek();
    this.theirs.value = undefined;
  }

  takeTheirs(): void {
    this.keepMine();
    this.change(copyOf(this.base.peek().acl));
  }

  /** Whether it was saved; if not, `problem` or `theirs` say why. Nothing changes meanwhile. */
  async save(): Promise<boolean> {
    if (this.busy.peek()) {
      return false;
    }
    this.busy.value = true;
    this.problem.value = undefined;
    this.key ??= requestKey();
    const acl = this.entries
      .peek()
      .filter(({ perms }) => perms.length > 0)
      .map((entry) => (entry.scheme === 'auth' ? { scheme: 'auth', perms: entry.perms } : entry));
    try {
      await this.send(this.path, acl, this.base.peek(), this.key);
      return true;
    } catch (error) {
      this.busy.value = false;
      await this.refused(error as ApiError);
      return false;
    } finally {
      this.busy.value = false;
    }
  }

  private async refused(error: ApiError): Promise<void> {
    this.problem.value = error;
    if (error.outcome === 'unknown') {
      return;
    }
    this.key = undefined;
    if (error.code === 'BadVersion') {
      const { zxidHex: zxid } = error.problem as { zxidHex?: string };
      const fence = zxid === undefined ? {} : { min_zxid: zxid };
      try {
        this.observe(await this.socket.read('getacl', { path: this.path, ...fence }));
        this.problem.value = undefined;
      } catch (other) {
        this.problem.value = other as ApiError;
      }
    }
  }

  private change(entries: Entry[]): void {
    this.entries.value = entries;
    this.problem.value = undefined;
    this.key = undefined;
  }
}
