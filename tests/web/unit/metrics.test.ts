import assert from 'node:assert/strict';
import { test } from 'node:test';
import { GROUPS, join, parseMetrics } from '../../../web/src/views/metrics/series';

test('the text of a scrape becomes families', () => {
  const families = parseMetrics(`# HELP a_total How many.
# TYPE a_total counter
a_total{op="get",x="y"} 3
a_total 4
# HELP t_seconds How long.
# TYPE t_seconds histogram
t_seconds_bucket{op="set",le="0.001"} 98
t_seconds_bucket{op="set",le="0.002"} 99
t_seconds_bucket{op="set",le="+Inf"} 100
t_seconds_sum{op="set"} 0.5
t_seconds_count{op="set"} 100
`);
  assert.deepEqual(families, [
    {
      name: 'a_total',
      type: 'counter',
      help: 'How many.',
      samples: [
        { labels: 'op="get",x="y"', value: 3 },
        { labels: '', value: 4 },
      ],
    },
    {
      name: 't_seconds',
      type: 'histogram',
      help: 'How long.',
      samples: [
        { labels: 'op="set", sum', value: 0.5 },
        { labels: 'op="set", count', value: 100 },
        { labels: 'op="set", 99 % ≤', value: 0.002 },
      ],
    },
  ]);
});

test('new values are appended, within the shown period', () => {
  const past = { step: 1 as const, times: [1, 2], series: { reads: [10, 20] } };
  const more = { step: 1 as const, times: [3], series: { reads: [30], writes: [1] } };
  assert.deepEqual(join(past, more, 2), {
    step: 1,
    times: [2, 3],
    series: { reads: [20, 30], writes: [null, 1] },
  });
  assert.deepEqual(join(past, { ...more, step: 10 }, 100).times, [3]);
});

test('each kept series is in one plot', () => {
  const series = GROUPS.flatMap(({ plots }) => plots.flatMap((plot) => plot.series));
  assert.equal(series.length, 34);
  assert.equal(new Set(series).size, 34);
});
