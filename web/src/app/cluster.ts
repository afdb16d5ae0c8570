// What the whole page knows of the ensemble: the one socket, REST beside it, and how the replicas are.

import { computed, effect, signal, untracked } from '@preact/signals';
import type { ApiError } from '../api/error';
import { Http } from '../api/http';
import { Socket } from '../api/socket';
import type { Ensemble, Status, Whoami } from '../api/types';
import { identity } from './identity';

const LOOK_MS = 2_000; // How often the replica is asked how it is, while the page is seen.

export const socket = new Socket(location.host);
export const http = new Http(socket, () => identity.value);

/** Of the replica that serves this page; undefined until it has answered. */
export const status = signal<Status | undefined>(undefined);
/** As seen from that replica. */
export const ensemble = signal<Ensemble | undefined>(undefined);
export const whoami = signal<Whoami | undefined>(undefined);
/** Why the last look has failed. */
export const trouble = signal<ApiError | undefined>(undefined);

/** Whether the server takes no writes of ours. */
export const readOnly = computed(() => status.value?.read_only === true);

async function look(): Promise<void> {
  try {
    const [one, all] = await Promise.all([socket.read('status'), socket.read('ensemble')]);
    status.value = one.status;
    ensemble.value = all.ensemble;
    trouble.value = undefined;
    socket.know(clientsOf(all.ensemble));
  } catch (error) {
    trouble.value = error as ApiError;
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

/** The replica that this page came from, while it is lost: its address loads no page now. */
export const lostHome = computed(() => {
  const home = ensemble.value?.members.find(({ id }) => clientOf(id) === location.host);
  const away = home && home.id !== socket.hello.value?.server;
  return away && (home.connected !== true || home.state === 'silent') ? home.id : undefined;
});

function greet(): void {
  void look();
  socket.read('whoami').then(
    (reply) => {
      whoami.value = reply.whoami;
    },
    () => undefined, // Asked again at the next connection.
  );
}

/** Starts all of it. Every connection is a new look: who serves, and who we are to it. */
export function followCluster(): void {
  effect(() => {
    const known = identity.value;
    whoami.value = undefined; // Until the replica has said who this one is.
    untracked(() => socket.identify(known));
  });
  effect(() => {
    if (socket.hello.value) {
      untracked(greet);
    }
  });
  setInterval(() => {
    if (!document.hidden && socket.link.peek() === 'live') {
      void look();
    }
  }, LOOK_MS);
  socket.start();
}
