import assert from 'node:assert/strict';
import { beforeEach, mock, test } from 'node:test';
import { Looks } from '../../../web/src/api/looks';

const PACE = { settle: 100, rest: 1_000 };
const settle = () => new Promise((resolve) => setImmediate(resolve));

beforeEach(() => {
  mock.timers.reset();
  mock.timers.enable({ apis: ['setTimeout', 'Date'] });
});

/** Each request lasts until the test ends it. */
function begin() {
  const page = { seen: true, act: () => undefined as unknown };
  const state = { count: 0, end: () => undefined as unknown };
  const looks = new Looks(
    () =>
      new Promise<void>((resolve) => {
        state.count += 1;
        state.end = resolve;
      }),
    PACE,
    {
      isSeen: () => page.seen,
      follow: (act) => {
        page.act = act;
        return () => undefined;
      },
    },
  );
  return { looks, page, state };
}

test('simultaneous events cause one request, and events during it another one', async () => {
  const { looks, state } = begin();
  looks.soon();
  looks.soon();
  mock.timers.tick(100);
  assert.equal(state.count, 1);
  looks.soon();
  mock.timers.tick(5_000);
  assert.equal(state.count, 1, 'not two at a time');
  state.end();
  await settle();
  mock.timers.tick(4 * 5_000 - 1);
  assert.equal(state.count, 1, 'a long request is followed by a pause');
  mock.timers.tick(1);
  assert.equal(state.count, 2);
  state.end();
  await settle();
  mock.timers.tick(60_000);
  assert.equal(state.count, 2, 'no change since then');
  looks.soon();
  looks.stop();
  mock.timers.tick(60_000);
  assert.equal(state.count, 2);
});

test('a hidden page sends no request', () => {
  const { looks, page, state } = begin();
  page.seen = false;
  looks.soon();
  mock.timers.tick(5_000);
  assert.equal(state.count, 0);
  page.seen = true;
  page.act();
  mock.timers.tick(100);
  assert.equal(state.count, 1);
});
