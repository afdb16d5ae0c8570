// One WebSocket for all that is live: requests with their replies, watches, and what becomes of both
// when the replica is lost. Then it goes to the next one, asks again what was not answered, and has
// each watch continue where it was.

import { batch, type Signal, signal } from '@preact/signals';
import { Alarm } from './alarm';
import { ApiError, connectionLoss, tooLarge } from './error';
import type { Change, Hello, Reads, Reply, WatchKind } from './types';
import { newest } from './zxid';

const PROTOCOL = 'zabra.v1.json';
const OPEN_MS = 5_000; // For the handshake and the first message.
const PROOF_MS = 2_000; // A connection without a leader is held for so long before it counts.
const BACKOFF_MIN_MS = 200;
const BACKOFF_MAX_MS = 1_000; // A page is live again within 2 s of its replicas.
const BEATS = 2; // Heartbeats that may be missed.
const QUIET_MS = 3_000; // After that the replica is asked whether it is there,
const ANSWER_MS = 5_000; // and has so long to say so.
const SMALL = ['ping', 'status', 'ensemble', 'whoami']; // What cannot take long on its way.
const READ_TRIES = 5; // Of a read that a replica cannot answer yet.
const UTF8_MAX = 3; // Bytes of one unit of a string.
const UNLOOKED = [429, 503]; // Statuses of a replica that has not even looked at a request,
const UNLOOKED_CODE = 'NotReadOnly'; // and the code of one that takes no writes, whatever they are.
const UNSURE_MAX = 100; // Keys of writes that may have been done; a user has few at a time.

export type Link =
  /** Events arrive as they happen. */
  | 'live'
  /** The replica is lost, another one is being tried. */
  | 'resyncing'
  /** All of them have been tried. */
  | 'offline';

export interface Identity {
  user: string;
  password: string;
}

export interface WatchRequest {
  path: string;
  kind: WatchKind;
  values?: boolean;
  onChange(change: Change): void;
  /** Events were lost: read the data again. */
  onReset(): void;
  /** A replica watches from now on, or again; `resumed`: how missed events were delivered. */
  onReady?(resumed: string | undefined): void;
  /** It was not taken; it is tried again at the next connection. */
  onRefused?(error: ApiError): void;
}

interface Watch extends WatchRequest {
  /** As the replica calls it; undefined while it has not answered. */
  id: number | undefined;
  /** It resumes after this zxid; undefined: from now on. */
  since: string | undefined;
  /** The replica has still to tell it what it was too slow for: events of others say nothing about it. */
  behind: boolean;
}

interface Pending {
  message: Record<string, unknown> & { id: number };
  again: boolean; // May be asked again elsewhere.
  tries: number; // That were answered "not yet".
  sent: boolean; // To a replica, which may have done it.
  resolve(reply: Reply): void;
  reject(error: ApiError): void;
}

interface WatchReply extends Reply {
  watch: number;
  zxid: string;
  resumed?: string;
}

interface EventMessage {
  event: string;
  zxid?: string;
  watches?: number[];
  end?: boolean;
  servers?: string[];
}

/** What the tests put another one in place of. */
export type OpenSocket = (url: string) => WebSocket;

const openSocket: OpenSocket = (url) => new WebSocket(url, PROTOCOL);

/** It asks for the state that was seen, and changes nothing. */
function isRead({ message, again }: Pending): boolean {
  return again && !('key' in message);
}

/** '': it has none. */
function keyOf(one: Pending | undefined): string {
  const key = one?.message['key'];
  return typeof key === 'string' ? key : '';
}

function bytesIn(text: string): number {
  return new TextEncoder().encode(text).length;
}

export class Socket {
  readonly link: Signal<Link> = signal<Link>('resyncing');
  readonly hello: Signal<Hello | undefined> = signal(undefined);
  /** The newest state heard of. */
  readonly zxid: Signal<string> = signal('0x0');
  /** host:port of the replica that serves, or is being tried. */
  readonly replica: Signal<string>;
  /** Why the identity was not taken; undefined: it was, or there is none. */
  readonly refused: Signal<ApiError | undefined> = signal(undefined);
  /** The replica requires an identity: nothing is tried before there is one. */
  readonly locked: Signal<boolean> = signal(false);

  private readonly open: OpenSocket;
  private replicas: string[];
  private socket: WebSocket | undefined;
  private identity: Identity | undefined;
  private history: string | undefined;
  private nextId = 1;
  private failures = 0; // Attempts since it was live.
  private readonly pending = new Map<number, Pending>();
  private readonly watches = new Set<Watch>();
  private readonly unsure = new Set<string>(); // Keys of writes of which a try may have been done.
  private readonly byId = new Map<number, Set<Watch>>();
  private readonly asked = new Set<Watch>(); // Whose answer is on its way, wanted still or not.
  private readonly silence = new Alarm(() => this.reconnect(this.failures + 1));
  private readonly quiet = new Alarm(() => this.probe());
  private proof: ReturnType<typeof setTimeout> | undefined;
  private retry: ReturnType<typeof setTimeout> | undefined;
  private ready = false; // The replica has said hello.
  private messageMax = Number.POSITIVE_INFINITY; // Bytes; it ends a connection that sends more.
  private ended = false;

  constructor(replica: string, open: OpenSocket = openSocket) {
    this.open = open;
    this.replicas = [replica];
    this.replica = signal(replica);
  }

  start(): void {
    this.connect();
  }

  stop(): void {
    this.ended = true;
    clearTimeout(this.retry);
    this.drop();
    this.fail((one) => one.reject(connectionLoss(!one.again)));
  }

  /** The replicas that may serve, this one first: from /ensemble/v1. */
  know(replicas: string[]): void {
    const others = replicas.filter((one) => !this.replicas.includes(one));
    if (others.length > 0) {
      this.replicas = [...this.replicas, ...others];
    }
  }

  /** From now on as this user; undefined: anonymous. A socket cannot drop an identity, so a new one is opened. */
  identify(identity: Identity | undefined): void {
    this.identity = identity;
    this.refused.value = undefined;
    if (this.ready || this.locked.peek()) {
      this.locked.value = false;
      this.reconnect(0);
    }
  }

  /** A read: asked again elsewhere when the replica is lost. */
  read<Op extends keyof Reads>(op: Op, members: object = {}): Promise<Reads[Op]> {
    return this.ask({ ...members, op }, true) as Promise<Reads[Op]>;
  }

  /** A write: with a `key` it may be asked again, without one its outcome is then unknown. */
  write<T extends Reply>(
    op: string,
    members: { key?: string } & Record<string, unknown> = {},
  ): Promise<T> {
    return this.ask({ ...members, op }, members.key !== undefined) as Promise<T>;
  }

  /** Until the returned function is called. */
  watch(request: WatchRequest): () => void {
    const watch: Watch = { ...request, id: undefined, since: undefined, behind: false };
    this.watches.add(watch);
    if (this.ready) {
      void this.sendWatch(watch);
    }
    return () => this.unwatch(watch);
  }

  // ---- Requests ----

  private ask(message: Record<string, unknown>, again: boolean): Promise<Reply> {
    return new Promise((resolve, reject) => {
      const id = this.nextId++;
      const one = { message: { ...message, id }, again, tries: 0, sent: false, resolve, reject };
      if (!this.ready && !again) {
        reject(connectionLoss(false));
        return;
      }
      this.pending.set(id, one);
      if (this.ready) {
        this.send(one);
      }
    });
  }

  /** No reply may show less than was seen before, wherever. */
  private send(one: Pending): void {
    const { message } = one;
    const fence = isRead(one) ? { min_zxid: this.zxid.peek() } : {};
    const text = JSON.stringify({ ...fence, ...message });
    if (text.length * UTF8_MAX > this.messageMax && bytesIn(text) > this.messageMax) {
      this.pending.delete(message.id);
      one.reject(tooLarge(this.messageMax));
      return;
    }
    one.sent = true;
    this.socket?.send(text);
  }

  private take(
    message: { id: number; ok: boolean; error?: object } & Record<string, unknown>,
  ): void {
    const one = this.pending.get(message.id);
    if (!message.ok) {
      const error = this.judge(one, new ApiError(message.error ?? {}));
      if (!one || !this.waits(one, error)) {
        this.pending.delete(message.id);
        one?.reject(error);
      }
      return;
    }
    this.pending.delete(message.id);
    this.unsure.delete(keyOf(one));
    if (typeof message['zxid'] === 'string') {
      this.heard(message['zxid']);
    }
    one?.resolve(message as unknown as Reply);
  }

  /** A replica that could not look at a write knows nothing of a try before: its outcome stays unknown. */
  private judge(one: Pending | undefined, error: ApiError): ApiError {
    const key = keyOf(one);
    const known = !UNLOOKED.includes(error.status) && error.code !== UNLOOKED_CODE;
    if (key === '' || (error.outcome !== 'unknown' && (known || !this.unsure.has(key)))) {
      this.unsure.delete(key);
      return error;
    }
    this.doubt(key);
    return new ApiError({ ...error.problem, outcome: 'unknown' });
  }

  private doubt(key: string): void {
    this.unsure.delete(key);
    this.unsure.add(key);
    const [oldest = ''] = this.unsure;
    if (this.unsure.size > UNSURE_MAX) {
      this.unsure.delete(oldest);
    }
  }

  /** A replica that is not so far yet, as after the loss of another one, is asked again. */
  private waits(one: Pending, { problem, code }: ApiError): boolean {
    const { retry_after_ms: ms } = problem;
    const { socket } = this;
    const soon = code === 'NotReady' || code === 'ReplicaBehind';
    if (!soon || ms === undefined || !isRead(one) || one.tries >= READ_TRIES) {
      return false;
    }
    one.tries += 1;
    setTimeout(() => {
      if (this.socket === socket && this.pending.has(one.message.id)) {
        this.send(one);
      }
    }, ms);
    return true;
  }

  private fail(act: (one: Pending) => void): void {
    for (const [id, one] of this.pending) {
      if (!one.again || this.ended) {
        this.pending.delete(id);
        act(one);
      }
    }
  }

  // ---- Watches ----

  private async sendWatch(watch: Watch): Promise<void> {
    const { path, kind, values, since } = watch;
    const socket = this.socket;
    const members = {
      op: 'watch',
      path,
      kind,
      ...(values ? { values } : {}),
      ...(since ? { since: `${this.history}:${since}` } : {}),
    };
    this.asked.add(watch);
    const reply = await this.ask(members, false).catch((error: ApiError) => error);
    this.asked.delete(watch);
    if (reply instanceof ApiError) {
      this.notWatched(watch, reply);
    } else if (this.socket === socket) {
      this.watched(watch, reply as WatchReply);
    }
  }

  private watched(watch: Watch, { watch: id, zxid, resumed }: WatchReply): void {
    if (!this.watches.has(watch)) {
      this.release(watch, id);
      return;
    }
    const same = this.byId.get(id) ?? new Set();
    watch.id = id;
    watch.since ??= zxid;
    watch.behind = [...same].some(({ behind }) => behind);
    this.byId.set(id, same.add(watch));
    watch.onReady?.(resumed);
    if (resumed === 'gap') {
      this.reset(watch, zxid);
    }
  }

  private notWatched(watch: Watch, error: ApiError): void {
    if (error.code === 'ConnectionLoss' || !this.watches.has(watch)) {
      return; // The next connection asks for all that are wanted.
    }
    if (error.code === 'HistoryChanged') {
      this.reset(watch, undefined);
      void this.sendWatch(watch);
      return;
    }
    watch.onRefused?.(error);
    const { socket } = this;
    const { retry_after_ms: ms } = error.problem;
    if (ms !== undefined) {
      setTimeout(() => {
        if (this.socket === socket && this.watches.has(watch)) {
          void this.sendWatch(watch);
        }
      }, ms);
    }
  }

  private reset(watch: Watch, since: string | undefined): void {
    watch.since = since;
    watch.onReset();
  }

  private unwatch(watch: Watch): void {
    this.watches.delete(watch);
    if (watch.id !== undefined) {
      this.byId.get(watch.id)?.delete(watch);
      this.release(watch, watch.id);
    }
  }

  /** To a replica watches of the same are one. It is removed when no subscriber has it, or is about to. */
  private release({ kind, path }: Watch, id: number): void {
    const asked = [...this.asked].some((one) => one.kind === kind && one.path === path);
    if (!asked && !this.byId.get(id)?.size) {
      this.byId.delete(id);
      this.ask({ op: 'unwatch', watch: id }, false).catch(() => undefined);
    }
  }

  private of(message: EventMessage): Watch[] {
    return (message.watches ?? []).flatMap((id) => [...(this.byId.get(id) ?? [])]);
  }

  // ---- Events ----

  private hear(message: EventMessage): void {
    if (message.event.startsWith('Node')) {
      const change = message as unknown as Change;
      const told = this.of(message);
      for (const watch of told) {
        watch.onChange(change);
      }
      if (message.end) {
        this.told(change.zxid, (watch) => !watch.behind || told.includes(watch));
      }
    } else if (message.event === 'heartbeat' && message.zxid) {
      this.told(message.zxid, () => true); // Not beyond those that are behind.
    } else if (message.event === 'overrun') {
      for (const watch of this.of(message)) {
        watch.behind = true; // For as long as this connection lasts: nothing says when it is over.
      }
    } else if (message.event === 'gap') {
      for (const watch of this.of(message)) {
        this.reset(watch, message.zxid);
      }
    } else if (message.event === 'closing') {
      this.know(message.servers ?? []);
    }
  }

  /** Watches that this replica has accepted have received everything up to here. */
  private told(zxid: string, of: (watch: Watch) => boolean): void {
    this.heard(zxid);
    for (const watch of this.watches) {
      if (watch.id !== undefined && watch.since !== undefined && of(watch)) {
        watch.since = newest(zxid, watch.since);
      }
    }
  }

  private heard(zxid: string): void {
    this.zxid.value = newest(zxid, this.zxid.peek());
  }

  // ---- The connection ----

  private connect(): void {
    let socket: WebSocket;
    try {
      socket = this.open(
        `${location.protocol === 'https:' ? 'wss' : 'ws'}://${this.replica.peek()}/ws/v1`,
      );
    } catch {
      this.reconnect(this.failures + 1);
      return;
    }
    this.socket = socket;
    socket.onmessage = ({ data }) => {
      if (socket === this.socket) {
        this.onMessage(JSON.parse(data));
      }
    };
    socket.onclose = () => {
      if (socket === this.socket) {
        this.reconnect(this.failures + 1);
      }
    };
    this.silence.set(OPEN_MS);
  }

  private onMessage(message: Record<string, unknown>): void {
    const hello = this.hello.peek();
    if (message['event'] === 'hello') {
      this.begin(message as unknown as Hello);
      return;
    }
    this.alive(hello?.heartbeat_ms ?? OPEN_MS);
    if (message['event'] === undefined) {
      this.take(message as { id: number; ok: boolean });
    } else {
      this.hear(message as unknown as EventMessage);
    }
  }

  /** A replica has answered: sends the identity, unanswered requests and watches. */
  private begin(hello: Hello): void {
    if (hello.identity_required && !this.identity) {
      this.lock();
      return;
    }
    this.alive(hello.heartbeat_ms);
    if (this.history !== undefined && this.history !== hello.history) {
      this.forget();
    }
    this.history = hello.history;
    this.messageMax = hello.limits?.maxMessageBytes ?? Number.POSITIVE_INFINITY;
    this.ready = true;
    const asked = [...this.pending.values()].filter(({ again }) => again);
    this.showIdentity();
    for (const watch of this.watches) {
      void this.sendWatch(watch);
    }
    for (const one of asked) {
      this.send(one); // Behind the watches: of what changes after its answer they tell.
    }
    batch(() => {
      this.hello.value = hello;
      this.heard(hello.zxid);
      if (hello.role === 'looking' && this.failures >= this.replicas.length) {
        this.proof = setTimeout(() => this.proven(), PROOF_MS);
      } else {
        this.proven();
      }
    });
  }

  /** Whatever was sent now would be refused, and end the connection. */
  private lock(): void {
    this.drop();
    batch(() => {
      this.hello.value = undefined;
      this.locked.value = true;
    });
  }

  /** Without a quorum all replicas are tried in vain, again and again: those that answer hang up soon. */
  private proven(): void {
    this.failures = 0;
    this.link.value = 'live';
  }

  /** The replica has said that it is in step with a leader: no further proof is needed. */
  trust(): void {
    if (this.ready && this.link.peek() !== 'live') {
      clearTimeout(this.proof);
      this.proven();
    }
  }

  /** Before anything else is asked. */
  private showIdentity(): void {
    const socket = this.socket;
    if (!this.identity) {
      return;
    }
    const { user, password } = this.identity;
    const credential = `${user}:${password}`;
    this.ask({ op: 'auth', scheme: 'digest', credential }, false).catch((error: ApiError) => {
      if (socket === this.socket && error.code !== 'ConnectionLoss') {
        this.refused.value = error;
      }
    });
  }

  /** The ensemble was put back to another state: zxids of the old one mean nothing now. */
  private forget(): void {
    this.zxid.value = '0x0';
    for (const watch of this.watches) {
      this.reset(watch, undefined);
    }
  }

  private drop(): void {
    const socket = this.socket;
    this.socket = undefined;
    this.ready = false;
    this.silence.stop();
    this.quiet.stop();
    clearTimeout(this.proof);
    socket?.close();
    for (const one of this.pending.values()) {
      if (one.sent && keyOf(one) !== '') {
        this.doubt(keyOf(one));
      }
    }
    this.byId.clear();
    this.asked.clear();
    for (const watch of this.watches) {
      watch.id = undefined;
      watch.behind = false;
    }
  }

  /** It has said something. */
  private alive(beatMs: number): void {
    this.silence.set(beatMs * BEATS);
    if (beatMs * BEATS > QUIET_MS + ANSWER_MS) {
      this.quiet.set(QUIET_MS);
    }
  }

  /** Heartbeats are rare. What is large may take longer, and so does what comes behind it. */
  private probe(): void {
    const asked = [...this.pending.values()].map(({ message }) => message['op'] as string);
    if (asked.length === 0) {
      this.ask({ op: 'ping' }, false).catch(() => undefined);
    }
    if (asked.every((op) => SMALL.includes(op))) {
      this.silence.set(ANSWER_MS);
    }
  }

  /** `failures` 0: on purpose, at the same replica, which is not lost. */
  private reconnect(failures: number): void {
    if (this.ended) {
      return;
    }
    this.drop();
    this.failures = failures;
    this.fail((one) => one.reject(connectionLoss(true)));
    batch(() => {
      this.hello.value = undefined;
      if (failures > 0) {
        this.link.value = failures > this.replicas.length ? 'offline' : 'resyncing';
      }
    });
    if (failures > 0) {
      const at = this.replicas.indexOf(this.replica.peek());
      this.replica.value = this.replicas[(at + 1) % this.replicas.length] ?? this.replica.peek();
    }
    clearTimeout(this.retry);
    this.retry = setTimeout(() => this.connect(), this.pause(failures));
  }

  /** None before another replica is tried for the first time; longer for each round in vain. */
  private pause(failures: number): number {
    const rounds = Math.floor(failures / this.replicas.length);
    const most = Math.min(BACKOFF_MAX_MS, BACKOFF_MIN_MS * 2 ** rounds);
    return failures <= 1 ? 0 : most / 2 + (Math.random() * most) / 2;
  }
}
