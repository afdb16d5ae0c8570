import assert from 'node:assert/strict';
import { test } from 'node:test';
import { append, KEPT, Trend } from '../../../web/src/views/overview/trend';

const history = (from: number, count: number) => ({
  step: 1 as const,
  times: Array.from({ length: count }, (_, at) => from + at),
  series: { reads: Array.from({ length: count }, (_, at) => at) },
});

test('seconds are joined, and the oldest are dropped', () => {
  const first = append({ times: [], series: {} }, history(100, KEPT));
  const second = append(first, history(100 + KEPT, 2));
  assert.equal(second.times.length, KEPT);
  assert.deepEqual([second.times[0], second.times.at(-1)], [102, 101 + KEPT]);
  assert.equal(second.series.reads?.length, KEPT);
  assert.equal(append({ times: [1], series: {} }, history(2, 1)).series.reads?.[0], null);
});

test('only new values are requested, and values of another replica are not mixed in', async () => {
  const asked: unknown[] = [];
  let answer = () => {};
  const trend = new Trend((query) => {
    asked.push(query['since']);
    return new Promise((resolve) => {
      answer = () => resolve(history(10 * asked.length, 3));
    });
  });
  const first = trend.look();
  void trend.look();
  answer();
  await first;
  const second = trend.look();
  trend.restart();
  answer();
  await second;
  assert.deepEqual(asked, [undefined, 12]);
  assert.deepEqual(trend.recent.value.times, []);
});
