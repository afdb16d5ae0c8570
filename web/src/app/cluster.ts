// What the whole page knows of the ensemble: the one socket, REST beside it, and how the replicas are.

import { batch, computed, effect, signal, untracked } from '@preact/signals';
import type { ApiError } from '../api/error';
import { Http } from '../api/http';
import { Socket } from '../api/socket';
import type { Ensemble, Hello, Status, Whoami } from '../api/types';
import { Asking } from './asking';
import { conditionOf, type Known, lateness } from './condition';
import { identity, loginOpen } from './identity';

const LOOK_MS = 1_000; // How often the replica is asked how it is, while the page is seen,
const TURN_MS = 500; // and how often while not all is well; so often the condition is judged, too.
const ZXID_MS = 250; // How often the newest zxid is drawn; thousands may come in a second.

export const socket = new Socket(location.host);
export const http = new Http(socket, () => identity.value);

/** Of the replica that serves this page; undefined until it has answered. */
export const status = signal<Status | undefined>(undefined);
/** As seen from that replica. */
export const ensemble = signal<Ensemble | undefined>(undefined);
export const whoami = signal<Whoami | undefined>(undefined);
/** Why the last look has failed. */
export const trouble = signal<ApiError | undefined>(undefined);
/** The newest zxid that the page has heard of, as often as a reader can follow. */
export const newestZxid = signal(socket.zxid.peek());

const now = signal(performance.now());
const lookedAt = signal(0);
const heardAt = signal(0);

const known = computed<Known>(() => {
  const one = status.value;
  const all = ensemble.value;
  return {
    link: socket.link.value,
    server: socket.hello.value?.server,
    look: one && all ? { status: one, ensemble: all, at: lookedAt.value } : undefined,
    heard: heardAt.value,
    now: now.value,
  };
});

/** The one health of this page: whatever depends on it reads it here. */
export const condition = computed(() => conditionOf(known.value));

/** Why it is `stale`. */
export const late = computed(() => lateness(known.value));

/** Whether the server takes no writes of ours. */
export const readOnly = computed(() => status.value?.read_only === true);

let asked: Hello | undefined; // The connection at whose other end a look is under way.
const asking = new Asking(http, socket);

async function look(): Promise<void> {
  const hello = socket.hello.peek();
  if (!hello || asked === hello) {
    return;
  }
  asked = hello;
  const answers = await asking.ask(hello).catch((error: ApiError) => error);
  if (asked !== hello) {
    return; // Another replica serves, and was asked.
  }
  asked = undefined;
  if (Array.isArray(answers)) {
    take(...answers);
  } else {
    trouble.value = answers;
  }
}

/** What has just been changed is to be seen soon. */
export function lookSoon(): void {
  void look();
}

function take(one: Status, all: Ensemble): void {
  batch(() => {
    status.value = one;
    ensemble.value = all;
    lookedAt.value = performance.now();
    now.value = lookedAt.peek();
    trouble.value = undefined;
  });
  socket.know(clientsOf(all));
  if (one.serving) {
    socket.trust();
  }
}

/** host:port of the replicas that advertise one. */
export function clientsOf({ members }: Ensemble): string[] {
  return members.flatMap(({ client }) => (client ? [new URL(client).host] : []));
}

/** host:port of a replica for clients, where it tells one. */
export function clientOf(id: number): string | undefined {
  const client = ensemble.value?.members.find((member) => member.id === id)?.client;
  return client ? new URL(client).host : undefined;
}

/** The replica that this page came from, while it does not answer: its address loads no page now. */
export const lostHome = computed(() => {
  const home = ensemble.value?.members.find(({ id }) => clientOf(id) === location.host);
  const away = home && home.id !== socket.hello.value?.server;
  return away && (home.connected !== true || home.state === 'silent') ? home.id : undefined;
});

const home = signal<number | undefined>(undefined); // Its id, once it was seen to be a member.

effect(() => {
  home.value =
    ensemble.value?.members.find(({ id }) => clientOf(id) === location.host)?.id ?? home.peek();
});

/** The replica that this page came from, if it is no member any more: members refuse what this page sends. */
export const formerHome = computed(() => {
  const id = home.value;
  const all = ensemble.value;
  return all && id !== undefined && !all.members.some((one) => one.id === id) ? id : undefined;
});

function greet(): void {
  heardAt.value = performance.now();
  void look();
  socket.read('whoami').then(
    (reply) => {
      whoami.value = reply.whoami;
    },
    () => undefined, // Asked again at the next connection.
  );
}

function turn(): void {
  if (document.hidden) {
    return;
  }
  now.value = performance.now();
  const well = condition.peek() === 'live' || condition.peek() === 'read_only';
  const due = now.peek() - lookedAt.peek() >= (well ? LOOK_MS - TURN_MS / 2 : 0);
  if (due) {
    void look();
  }
}

/** Starts all of it. Every connection asks again which replica serves, and for our identities. */
export function followCluster(): void {
  effect(() => {
    const user = identity.value;
    whoami.value = undefined; // Until the replica has reported the identities.
    untracked(() => socket.identify(user));
  });
  effect(() => {
    if (socket.locked.value) {
      loginOpen.value = true;
    }
  });
  effect(() => {
    if (socket.hello.value) {
      untracked(greet);
    }
  });
  setInterval(() => {
    newestZxid.value = socket.zxid.peek();
  }, ZXID_MS);
  setInterval(turn, TURN_MS);
  document.addEventListener('visibilitychange', () => void look());
  socket.start();
}
