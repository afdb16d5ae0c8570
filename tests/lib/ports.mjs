// Ports on loopback for servers under test, as in ports.h: claimed for as long as this program lives, so
// that a replica that is restarted finds its own again, and its clients meet no other server meanwhile.

import { createServer } from 'node:net';

const FIRST = 12_000; // Below the kernel's ports for outgoing connections.
const COUNT = 20_000;
const TRIES = 1_000;
const UNIX_NAME_MAX = 108; // The name is all of the field: releases of node differ in what they add.

function isFree(port) {
  return new Promise((resolve) => {
    const server = createServer().once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}

/** A socket without a file, whose name all test programs know; undefined: another program has it. */
function claim(port) {
  return new Promise((resolve) => {
    const server = createServer().once('error', () => resolve(undefined));
    const name = `\0zabra-test-port-${port}`.padEnd(UNIX_NAME_MAX, '\0');
    server.listen(name, () => resolve(server.unref()));
  });
}

/** Claims all of them; false, and none, when one is not free. */
async function claimAll(ports) {
  const claims = await Promise.all(ports.map(claim));
  const free = await Promise.all(ports.map(isFree));
  if (claims.every(Boolean) && free.every(Boolean)) {
    return true;
  }
  for (const server of claims) {
    server?.close();
  }
  return false;
}

/** The first of `count` free ports in a row; with `apart`, as many ports that far above them are free as well. */
export async function portFree(count = 1, apart = 0) {
  for (let i = 0; i < TRIES; i += 1) {
    const first = FIRST + Math.floor(Math.random() * (COUNT - count - apart));
    const row = Array.from({ length: count }, (_, at) => first + at);
    if (await claimAll(apart > 0 ? [...row, ...row.map((port) => port + apart)] : row)) {
      return first;
    }
  }
  throw new Error('no free ports');
}
