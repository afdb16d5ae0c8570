import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import { ApiError } from '../../../web/src/api/error';
import { Http } from '../../../web/src/api/http';
import type { Socket } from '../../../web/src/api/socket';
import type { Hello } from '../../../web/src/api/types';
import { Asking } from '../../../web/src/app/asking';

const hello = (server: number) => ({ server }) as Hello;
const late = () => new ApiError({ detail: 'timed out' });
const http = (status: number) => new ApiError({ status, detail: 'no' });

/** REST answers as replica `id`, or fails; the socket always answers as replica 1. */
function begin(rest: { id: number | ApiError }) {
  const asked = { rest: 0, socket: 0 };
  const info = async () => {
    asked.rest += 1;
    if (rest.id instanceof ApiError) {
      throw rest.id;
    }
    return { id: rest.id, seen_by: rest.id } as never;
  };
  const read = async () => {
    asked.socket += 1;
    return { status: { id: 1 }, ensemble: { seen_by: 1 } } as never;
  };
  return { asked, asking: new Asking({ info }, { read }) };
}

test('requests go by REST, or by the socket if REST reaches another replica', async () => {
  const rest: { id: number | ApiError } = { id: 1 };
  const { asked, asking } = begin(rest);
  const first = hello(1);
  assert.equal((await asking.ask(first))[0].id, 1);
  assert.deepEqual(asked, { rest: 2, socket: 0 });
  rest.id = 2;
  assert.equal((await asking.ask(first))[0].id, 1);
  await asking.ask(first);
  assert.deepEqual(asked, { rest: 4, socket: 4 }, 'REST is not tried in vain again');
  rest.id = 1;
  await asking.ask(hello(1));
  assert.deepEqual(asked, { rest: 6, socket: 4 }, 'a new connection tries REST again');
});

test('requests go by the socket if REST is refused', async () => {
  const rest: { id: number | ApiError } = { id: http(401) };
  const { asked, asking } = begin(rest);
  const first = hello(1);
  assert.equal((await asking.ask(first))[1].seen_by, 1);
  rest.id = 1;
  await asking.ask(first);
  assert.equal(asked.socket, 2, 'REST answers again');
  rest.id = http(429);
  assert.equal((await asking.ask(first))[0].id, 1);
});

test('no answer by REST: at first REST is blocked, later the replica has stopped', async () => {
  const rest: { id: number | ApiError } = { id: late() };
  const { asked, asking } = begin(rest);
  const first = hello(1);
  await asking.ask(first);
  await asking.ask(first);
  assert.deepEqual(asked, { rest: 2, socket: 4 }, 'only one request waits for it');
  rest.id = 1;
  const second = hello(1);
  await asking.ask(second);
  rest.id = late();
  await assert.rejects(asking.ask(second), { status: 0 });
  assert.equal(asked.socket, 4);
});

test('an answer of a proxy counts by its status, not its text', async () => {
  Object.assign(globalThis, { location: { protocol: 'http:' } });
  const socket = { replica: { value: 'a:1' } } as unknown as Socket;
  const info = (answer: Response) => {
    mock.method(globalThis, 'fetch', async () => answer);
    return new Http(socket, () => undefined).info('/status/v1', 1_000);
  };
  await assert.rejects(info(new Response('<html>', { status: 401 })), { status: 401 });
  await assert.rejects(info(Response.json({ login: '/' }, { status: 407 })), { status: 407 });
  await assert.rejects(info(new Response('<html>')), { status: 200 });
  mock.reset();
});
