// One WebSocket for all that is live: requests with their replies, watches, and what becomes of both
// when the replica is lost. Then it goes to the next one, asks again what was not answered, and has
// each watch go on where it was.

import { batch, type Signal, signal } from '@preact/signals';
import { ApiError, connectionLoss } from './error';
import type { Change, Hello, Reads, Reply, WatchKind } from './types';
import { newest } from './zxid';

const PROTOCOL = 'zabra.v1.json';
const OPEN_MS = 5_000; // For the handshake and the first message.
const BACKOFF_MIN_MS = 200;
const BACKOFF_MAX_MS = 5_000;
const BEATS = 2; // Heartbeats that may be missed.

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
  /** What happened meanwhile cannot be told: read anew. */
  onReset(): void;
}

interface Watch extends WatchRequest {
  /** As the replica calls it; undefined while it has not answered. */
  id: number | undefined;
  /** It goes on behind this zxid; undefined: from now on. */
  since: string | undefined;
}

interface Pending {
  message: Record<string, unknown>;
  again: boolean; // May be asked again elsewhere.
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

export class Socket {
  readonly link: Signal<Link> = signal<Link>('resyncing');
  readonly hello: Signal<Hello | undefined> = signal(undefined);
  /** The newest state heard of. */
  readonly zxid: Signal<string> = signal('0x0');
  /** host:port of the replica that serves, or is being tried. */
  readonly replica: Signal<string>;
  /** Why the identity was not taken; undefined: it was, or there is none. */
  readonly refused: Signal<ApiError | undefined> = signal(undefined);

  private readonly open: OpenSocket;
  private replicas: string[];
  private socket: WebSocket | undefined;
  private identity: Identity | undefined;
  private history: string | undefined;
  private nextId = 1;
  private failures = 0; // Attempts since it was live.
  private readonly pending = new Map<number, Pending>();
  private readonly watches = new Set<Watch>();
  private readonly byId = new Map<number, Set<Watch>>();
  private silence: ReturnType<typeof setTimeout> | undefined;
  private retry: ReturnType<typeof setTimeout> | undefined;
  private ready = false; // The replica has said hello.
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

  /** From now on as this user; undefined: as nobody. A socket cannot forget, so a new one is made. */
  identify(identity: Identity | undefined): void {
    this.identity = identity;
    this.refused.value = undefined;
    if (this.ready) {
      this.reconnect(0);
    }
  }

  /** A read: asked again elsewhere when the replica is lost. */
  read<Op extends keyof Reads>(op: Op, members: object = {}): Promise<Reads[Op]> {
    return this.ask({ ...members, op }, true) as Promise<Reads[Op]>;
  }

  /** A write: with a `key` it may be asked again, without one its outcome is then unknown. */
  write<T extends Reply>(op: string, members: { key?: string } & object = {}): Promise<T> {
    return this.ask({ ...members, op }, members.key !== undefined) as Promise<T>;
  }

  /** Until the returned function is called. */
  watch(request: WatchRequest): () => void {
    const watch: Watch = { ...request, id: undefined, since: undefined };
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
      const one = { message: { ...message, id }, again, resolve, reject };
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
  private send({ message, again }: Pending): void {
    const fence = again && !('key' in message) ? { min_zxid: this.zxid.peek() } : {};
    this.socket?.send(JSON.stringify({ ...fence, ...message }));
  }

  private take(
    message: { id: number; ok: boolean; error?: object } & Record<string, unknown>,
  ): void {
    const one = this.pending.get(message.id);
    this.pending.delete(message.id);
    if (message.ok) {
      if (typeof message['zxid'] === 'string') {
        this.heard(message['zxid']);
      }
      one?.resolve(message as unknown as Reply);
    } else {
      one?.reject(new ApiError(message.error ?? {}));
    }
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
    try {
      const reply = (await this.ask(members, false)) as WatchReply;
      if (this.socket !== socket || !this.watches.has(watch)) {
        return;
      }
      watch.id = reply.watch;
      watch.since ??= reply.zxid;
      this.byId.set(reply.watch, (this.byId.get(reply.watch) ?? new Set()).add(watch));
      if (reply.resumed === 'gap') {
        this.reset(watch, reply.zxid);
      }
    } catch (error) {
      if (error instanceof ApiError && error.code === 'HistoryChanged') {
        this.reset(watch, undefined);
        void this.sendWatch(watch);
      }
    }
  }

  private reset(watch: Watch, since: string | undefined): void {
    watch.since = since;
    watch.onReset();
  }

  private unwatch(watch: Watch): void {
    this.watches.delete(watch);
    const others = watch.id === undefined ? undefined : this.byId.get(watch.id);
    others?.delete(watch);
    if (watch.id !== undefined && others?.size === 0) {
      this.byId.delete(watch.id);
      this.ask({ op: 'unwatch', watch: watch.id }, false).catch(() => undefined);
    }
  }

  private of(message: EventMessage): Watch[] {
    return (message.watches ?? []).flatMap((id) => [...(this.byId.get(id) ?? [])]);
  }

  // ---- Events ----

  private hear(message: EventMessage): void {
    if (message.event.startsWith('Node')) {
      const change = message as unknown as Change;
      for (const watch of this.of(message)) {
        watch.onChange(change);
      }
      if (message.end) {
        this.told(change.zxid);
      }
    } else if (message.event === 'heartbeat' && message.zxid) {
      this.told(message.zxid);
    } else if (message.event === 'gap') {
      for (const watch of this.of(message)) {
        this.reset(watch, message.zxid);
      }
    } else if (message.event === 'closing') {
      this.know(message.servers ?? []);
    }
  }

  /** All watches have been told of everything up to here. */
  private told(zxid: string): void {
    this.heard(zxid);
    for (const watch of this.watches) {
      if (watch.since !== undefined) {
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
    this.expect(OPEN_MS);
  }

  private onMessage(message: Record<string, unknown>): void {
    const hello = this.hello.peek();
    if (message['event'] === 'hello') {
      this.begin(message as unknown as Hello);
      return;
    }
    this.expect((hello?.heartbeat_ms ?? OPEN_MS) * BEATS);
    if (message['event'] === undefined) {
      this.take(message as { id: number; ok: boolean });
    } else {
      this.hear(message as unknown as EventMessage);
    }
  }

  /** A replica has answered: who we are, what was not answered, and what is watched. */
  private begin(hello: Hello): void {
    this.expect(hello.heartbeat_ms * BEATS);
    if (this.history !== undefined && this.history !== hello.history) {
      this.forget();
    }
    this.history = hello.history;
    this.failures = 0;
    this.ready = true;
    this.showIdentity();
    for (const one of [...this.pending.values()].filter(({ again }) => again)) {
      this.send(one);
    }
    for (const watch of this.watches) {
      void this.sendWatch(watch);
    }
    batch(() => {
      this.hello.value = hello;
      this.heard(hello.zxid);
      this.link.value = 'live';
    });
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
    clearTimeout(this.silence);
    socket?.close();
    this.byId.clear();
    for (const watch of this.watches) {
      watch.id = undefined;
    }
  }

  private expect(ms: number): void {
    clearTimeout(this.silence);
    this.silence = setTimeout(() => this.reconnect(this.failures + 1), ms);
  }

  /** `failures` 0: on purpose, at the same replica. */
  private reconnect(failures: number): void {
    if (this.ended) {
      return;
    }
    this.drop();
    this.failures = failures;
    this.fail((one) => one.reject(connectionLoss(true)));
    batch(() => {
      this.hello.value = undefined;
      this.link.value = failures > this.replicas.length ? 'offline' : 'resyncing';
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
