// The last quarter of an hour, in four plots.

import { useEffect, useMemo } from 'preact/hooks';
import type { MetricsHistory } from '../../api/types';
import { http, socket } from '../../app/cluster';
import { locale } from '../../i18n';
import { type Curve, Plot } from '../../ui/plot';
import { say } from './texts';
import { type Series, Trend } from './trend';

const LOOK_MS = 2_000;

type Title = Parameters<typeof say>[0];

interface Group {
  title: Title;
  format: (value: number) => string;
  curves: [Series, Title][];
}

const count = (value: number) =>
  value.toLocaleString(locale(), { maximumFractionDigits: value < 10 ? 1 : 0 });
const ms = (value: number) => `${count(value)} ms`;

const GROUPS: Group[] = [
  {
    title: 'plot_requests',
    format: count,
    curves: [
      ['reads', 'reads'],
      ['writes', 'writes'],
    ],
  },
  {
    title: 'plot_latency',
    format: ms,
    curves: [
      ['write_p50_ms', 'half'],
      ['write_p99_ms', 'slowest'],
    ],
  },
  {
    title: 'plot_sync',
    format: ms,
    curves: [
      ['log_sync_p50_ms', 'half'],
      ['log_sync_p99_ms', 'slowest'],
    ],
  },
  {
    title: 'plot_clients',
    format: count,
    curves: [
      ['connections', 'connections'],
      ['sockets', 'sockets'],
      ['native', 'native'],
      ['sessions', 'sessions'],
    ],
  },
];

const COLOURS = ['curve-1', 'curve-2', 'curve-3', 'curve-4'] as const;

export function Trends() {
  const trend = useMemo(
    () => new Trend((query) => http.json<MetricsHistory>('/metrics/history/v1', query)),
    [],
  );
  const server = socket.hello.value?.server;
  useEffect(() => {
    if (server === undefined) {
      return undefined; // A replica is being tried: it is not asked before it serves.
    }
    trend.restart();
    void trend.look();
    const timer = setInterval(() => {
      if (!document.hidden && socket.link.peek() === 'live') {
        void trend.look();
      }
    }, LOOK_MS);
    return () => clearInterval(timer);
  }, [trend, server]);
  const { times, series } = trend.recent.value;
  return (
    <div class="plots">
      {GROUPS.map(({ title, format, curves }) => (
        <section key={title} class="panel">
          <Plot
            title={say(title)}
            times={times}
            format={format}
            curves={curves.map(
              ([name, text], at): Curve => ({
                title: say(text),
                colour: COLOURS[at] ?? 'curve-1',
                values: series[name] ?? [],
              }),
            )}
          />
        </section>
      ))}
    </div>
  );
}
