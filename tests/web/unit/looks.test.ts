import assert from 'node:assert/strict';
import { beforeEach, mock, test } from 'node:test';
import { Looks } from '../../../web/src/api/looks';

const PACE = { settle: 100, rest: 1_000 };
const settle = () => new Promise((resolve) => setImmediate(resolve));

beforeEach(() => {
  mock.timers.reset();
  mock.timers.enable({ apis: ['setTimeout', 'Date'] });
});

/** Each look lasts until it is ended. */
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

test('what comes together is looked at once, and what comes meanwhile again', async () => {
  const { looks, state } = begin();
  looks.soon();
  looks.soon();
  mock.timers.tick(100);
  assert.equal(state.count, 1);
  looks.soon();
  mock.timers.tick(5_000);
  assert.equal(state.count, 1, 'not twice at a time');
  state.end();
  await settle();
  mock.timers.tick(4 * 5_000 - 1);
  assert.equal(state.count, 1, 'what takes long is rested from');
  mock.timers.tick(1);
  assert.equal(state.count, 2);
  state.end();
  await settle();
  mock.timers.tick(60_000);
  assert.equal(state.count, 2, 'nothing has changed since');
  looks.soon();
  looks.stop();
  mock.timers.tick(60_000);
  assert.equal(state.count, 2);
});

test('nothing is looked at while nobody sees it', () => {
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
