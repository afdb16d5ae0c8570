// The unsaved text of a znode, and the changes of that znode meanwhile. Independent of the page.
//
//   base     what was read: saving asks for just this version of it
//   origin   what mine grew from: the base, with what was taken of theirs into mine since
//   theirs   the version of another client since then: after a choice, `base` is that
//
// No typed text is dropped before the user saves or discards it.

import { computed, signal } from '@preact/signals';
import type { ApiError } from '../../../api/error';
import { requestKey } from '../../../api/key';
import type { Socket } from '../../../api/socket';
import type { AclEntry, Reply, Stat } from '../../../api/types';
import { isNewer } from '../../../api/zxid';
import { fromBase64, sameBytes, toBase64 } from '../../../format/bytes';
import { bestForm, bytesOf, type EditForm, type Fault, textOf } from './convert';

type Bytes = Uint8Array<ArrayBuffer>;

export interface Seen {
  stat: Stat;
  bytes: Bytes;
}

/** Where an editor begins; another one is another editor. */
export interface Start {
  bytes: Bytes;
  text: string;
}

/** What mine has grown from since something of theirs was taken into it. */
export interface Grown {
  base: Seen;
  bytes: Bytes;
}

export type Phase =
  | 'editing'
  | 'saving'
  /** Retried several times, and the outcome is still unknown. */
  | 'unknown'
  /** Saved as it stands, or discarded. */
  | 'ended';

/** What was asked for: the same again is the same request. */
interface Request {
  op: 'set' | 'create';
  members: { key: string } & Record<string, unknown>;
  bytes: Bytes;
}

const TRIES = 5; // Of a write whose outcome is unknown, before the user is asked.
const RETRY_MS = 1_000;

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/** What a new znode must be asked for to be of the same kind. A session that is gone cannot own one. */
export function kindOf({ container, ttl }: Stat): object {
  return { ...(container ? { container } : {}), ...(ttl === undefined ? {} : { ttl }) };
}

/** Whether `a` is of a later change of the data than `b`. */
export function isLater(a: Stat, b: Stat): boolean {
  return a.czxid === b.czxid ? a.version > b.version : isNewer(a.czxid, b.czxid);
}

/** Whether both are of the same change of the data. */
function isSameVersion(a: Stat, b: Stat): boolean {
  return a.czxid === b.czxid && a.version === b.version;
}

export class Draft {
  readonly path: string;
  readonly base;
  readonly form;
  readonly start;
  readonly theirs = signal<Seen | 'gone' | undefined>(undefined);
  /** The editor holds something else than it has begun with. */
  readonly touched = signal(false);
  readonly phase = signal<Phase>('editing');
  /** The bytes of a chosen file are on their way; they replace the text. */
  readonly reading = signal(false);
  readonly problem = signal<ApiError | Fault | undefined>(undefined);
  readonly merging = signal(false);
  /** While merging: places that both have changed, and for which nothing is chosen yet. */
  readonly choices = signal(0);
  /** What stands in the editor. */
  text: () => string;
  /** undefined: nothing of theirs was taken into it. */
  grown: () => Grown | undefined = () => undefined;
  /** Of the znode, as far as it may be known: for making it again. */
  acl: AclEntry[] | undefined;

  readonly dirty = computed(
    () => this.touched.value || !sameBytes(this.start.value.bytes, this.base.value.bytes),
  );

  private readonly socket: Pick<Socket, 'read' | 'write'>;
  private readonly wait: (ms: number) => Promise<void>;
  private request: Request | undefined;
  private late: Seen | 'gone' | undefined;

  constructor(path: string, seen: Seen, socket: Pick<Socket, 'read' | 'write'>, wait = pause) {
    this.path = path;
    this.socket = socket;
    this.wait = wait;
    this.base = signal(seen);
    const form = bestForm(seen.bytes);
    this.form = signal<EditForm>(form);
    this.start = signal<Start>({ bytes: seen.bytes, text: textOf(form, seen.bytes) ?? '' });
    this.text = () => this.start.peek().text;
  }

  /** The editor is where the text is now. */
  edits(text: () => string, grown: () => Grown | undefined = () => undefined): void {
    this.text = text;
    this.grown = grown;
  }

  /** What mine grew from. Of another base than the one of now it says nothing. */
  origin(): Bytes {
    const base = this.base.peek();
    const grown = this.grown();
    return grown && isSameVersion(grown.base.stat, base.stat) ? grown.bytes : base.bytes;
  }

  /** What would be saved. What was not touched is what it has always been. */
  mine(): Bytes | Fault {
    const { bytes } = this.start.peek();
    return this.touched.peek() ? bytesOf(this.form.peek(), this.text()) : bytes;
  }

  /** Whether these can be edited so; text that is none would be damaged by it. */
  allows(form: EditForm): boolean {
    return textOf(form, this.start.value.bytes) !== undefined;
  }

  /** The same bytes in another form, unless what stands there means none. */
  setForm(form: EditForm): void {
    const mine = this.mine();
    if (typeof mine === 'string') {
      this.problem.value = mine;
    } else {
      this.begin(mine, form);
    }
  }

  /** Other bytes in place of all: from a file. */
  replace(bytes: Bytes): void {
    this.begin(bytes, this.fitting(bytes));
  }

  // ---- What others do ----

  /** The znode was read again. */
  observe(seen: Seen | 'gone'): void {
    if (this.phase.peek() === 'saving' || this.phase.peek() === 'unknown') {
      this.late = seen; // It may be this very write.
    } else if (seen === 'gone') {
      this.theirs.value = 'gone';
      this.merging.value = false;
    } else {
      this.compare(seen);
    }
  }

  /** Mine comes into the place of theirs when it is saved. */
  keepMine(): void {
    const theirs = this.theirs.peek();
    if (theirs && theirs !== 'gone') {
      this.base.value = theirs;
      this.theirs.value = undefined;
    }
    this.merging.value = false;
    this.problem.value = undefined;
  }

  takeTheirs(): void {
    const theirs = this.theirs.peek();
    if (theirs && theirs !== 'gone') {
      this.keepMine();
      this.begin(theirs.bytes, this.fitting(theirs.bytes));
    }
  }

  discard(): void {
    this.phase.value = 'ended';
  }

  // ---- Saving ----

  /** What was saved; undefined: it was not, and `problem`, `theirs` or `phase` say why. */
  async save(): Promise<Seen | undefined> {
    const request = this.phase.peek() === 'unknown' ? this.request : this.ask();
    if (!request || this.phase.peek() === 'saving') {
      return undefined;
    }
    this.request = request;
    this.problem.value = undefined;
    this.phase.value = 'saving';
    for (let tries = 1; ; tries += 1) {
      try {
        const { op, members, bytes } = request;
        const { stat } = await this.socket.write<Reply & { stat: Stat }>(op, members);
        return this.saved({ stat, bytes });
      } catch (error) {
        if (!(await this.asksAgain(error as ApiError, tries))) {
          return undefined;
        }
      }
    }
  }

  private ask(): Request | undefined {
    const bytes = this.mine();
    const theirs = this.theirs.peek();
    if (typeof bytes === 'string') {
      this.problem.value = bytes;
      return undefined;
    }
    if (theirs !== undefined && theirs !== 'gone') {
      return undefined; // One has to choose first.
    }
    const { stat } = this.base.peek();
    const { path, acl } = this;
    const common = { path, data64: toBase64(bytes), key: requestKey() };
    return theirs === 'gone'
      ? {
          op: 'create',
          members: { ...common, parents: true, ...kindOf(stat), ...(acl ? { acl } : {}) },
          bytes,
        }
      : { op: 'set', members: { ...common, version: stat.version, czxid: stat.czxid }, bytes };
  }

  /** More may have been typed meanwhile. */
  private saved(seen: Seen): Seen {
    const mine = this.mine();
    const { late } = this;
    this.request = undefined;
    this.late = undefined;
    this.base.value = seen;
    this.theirs.value = undefined;
    this.merging.value = false;
    this.phase.value =
      typeof mine !== 'string' && sameBytes(mine, seen.bytes) ? 'ended' : 'editing';
    if (
      this.phase.peek() === 'editing' &&
      late &&
      late !== 'gone' &&
      isLater(late.stat, seen.stat)
    ) {
      this.observe(late);
    }
    return seen;
  }

  /** With the same key it is not done twice, and the answer says what became of the first. */
  private async asksAgain(error: ApiError, tries: number): Promise<boolean> {
    if (error.outcome === 'unknown' || error.code === 'InFlight') {
      this.phase.value = 'unknown';
      this.problem.value = error;
      if (tries < TRIES) {
        await this.wait(RETRY_MS);
        return this.phase.peek() === 'unknown';
      }
      return false;
    }
    await this.refused(error);
    return false;
  }

  private async refused(error: ApiError): Promise<void> {
    const late = this.late;
    this.request = undefined;
    this.late = undefined;
    this.phase.value = 'editing';
    this.problem.value = error;
    if (error.code === 'BadVersion' || error.code === 'NodeExists') {
      await this.look((error.problem as { zxid?: unknown }).zxid);
    } else if (error.code === 'NoNode' && this.theirs.peek() === undefined) {
      this.observe('gone');
    } else if (late) {
      this.observe(late);
    }
  }

  /** What is there now, which is not older than what has refused the write. */
  private async look(zxid: unknown): Promise<void> {
    const fence = typeof zxid === 'string' ? { min_zxid: zxid } : {};
    try {
      const reply = await this.socket.read('get', {
        path: this.path,
        dataformat: 'base64',
        ...fence,
      });
      this.problem.value = undefined;
      this.theirs.value = undefined;
      this.observe({ stat: reply.stat, bytes: fromBase64(reply.data64 ?? '') });
    } catch (error) {
      const { code } = error as ApiError;
      if (code === 'NoNode') {
        this.observe('gone');
      } else {
        this.problem.value = error as ApiError;
      }
    }
  }

  // ---- Inside ----

  private compare(seen: Seen): void {
    const { stat, bytes } = this.base.peek();
    const taken = !sameBytes(this.origin(), bytes); // Then theirs of before is in mine, too.
    const unchanged = !taken && sameBytes(seen.bytes, bytes);
    if (isSameVersion(stat, seen.stat) && this.theirs.peek() !== 'gone') {
      this.base.value = seen;
    } else if (!this.dirty.peek()) {
      this.theirs.value = undefined;
      this.base.value = seen;
      this.begin(seen.bytes, this.fitting(seen.bytes));
    } else if (unchanged || this.isMine(seen.bytes)) {
      this.base.value = seen; // Nothing else is there than before, or than here.
      this.theirs.value = undefined;
      this.merging.value = false;
    } else {
      this.theirs.value = seen;
    }
  }

  private isMine(bytes: Bytes): boolean {
    const mine = this.mine();
    return typeof mine !== 'string' && sameBytes(mine, bytes);
  }

  /** The form that is used now, as long as it does not damage them. */
  private fitting(bytes: Bytes): EditForm {
    const form = this.form.peek();
    const best = bestForm(bytes);
    const fits = form === 'base64' || form === best || (form === 'text' && best === 'json');
    return fits ? form : best;
  }

  private begin(bytes: Bytes, form: EditForm): void {
    const text = textOf(form, bytes);
    if (text === undefined) {
      return;
    }
    this.form.value = form;
    this.start.value = { bytes, text };
    this.touched.value = false;
    this.problem.value = undefined;
    const grown = this.grown();
    this.edits(
      () => text,
      () => grown,
    );
  }
}
