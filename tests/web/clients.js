// Clients other than the page: each is a WebSocket with its own session, which expires after the
// socket is closed.

import { until } from './replicas.js';

const PROTOCOL = 'zabra.v1.json';

/**
 * undefined: refused by a replica that is not ready, or on a connection that had other requests.
 */
function open(url) {
  return new Promise((resolve) => {
    const socket = new WebSocket(url, PROTOCOL);
    socket.onopen = () => resolve(socket);
    socket.onerror = () => resolve(undefined);
  });
}

export class Client {
  /** A client at one replica; with a session when `timeout_ms` is given. */
  static async connect(replicas, { at = 0, timeout_ms } = {}) {
    const client = new Client();
    const url = `${replicas.url(at).replace('http', 'ws')}/ws/v1`;
    await until('a client is connected', async () => {
      client.socket = await open(url);
      return client.socket !== undefined;
    });
    client.waiting = new Map();
    client.next = 1;
    client.socket.onmessage = ({ data }) => client.take(JSON.parse(data));
    if (timeout_ms) {
      const { session } = await client.ask('session', { timeout_ms });
      client.session = session.public;
    }
    return client;
  }

  /** Connects `count` clients. */
  static many(count, replicas, options) {
    return Promise.all(Array.from({ length: count }, () => Client.connect(replicas, options)));
  }

  take(message) {
    const one = this.waiting.get(message.id);
    this.waiting.delete(message.id);
    if (message.ok) {
      one?.resolve(message);
    } else {
      one?.reject(new Error(JSON.stringify(message.error)));
    }
  }

  ask(op, members = {}) {
    const id = this.next++;
    this.socket.send(JSON.stringify({ ...members, id, op }));
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject });
    });
  }

  /** Creates a znode and returns its path. */
  async create(path, data = '', members = {}) {
    const reply = await this.ask('create', { path, dataUtf8: data, parents: true, ...members });
    return reply.path;
  }

  /** Creates an ephemeral sequential znode in a queue. */
  stand(path, data = '') {
    return this.create(path, data, { ephemeral: true, sequence: true });
  }

  /** Closes the socket like a killed process: the session expires after its timeout. */
  die() {
    this.socket.onmessage = null;
    this.socket.close();
  }
}
