// What a replica keeps of its recent past, and what it prints at /metrics.

import type { MetricsHistory } from '../../api/types';

/** Seconds shown, and the step in which they are kept. */
export const RANGES = {
  '5m': { seconds: 300, step: 1 },
  '15m': { seconds: 900, step: 1 },
  '1h': { seconds: 3_600, step: 10 },
  '6h': { seconds: 21_600, step: 10 },
} as const;

export type Range = keyof typeof RANGES;

export type Unit = 'rate' | 'ms' | 'count' | 'bytes' | 'bytes_rate' | 'share' | 'flag';

export interface PlotOf {
  name: string;
  unit: Unit;
  series: string[];
  /** Section of docs/metrics.md. */
  section: string;
}

export interface Group {
  name: 'throughput' | 'latency' | 'clients' | 'disk' | 'memory';
  plots: PlotOf[];
}

export const GROUPS: Group[] = [
  {
    name: 'throughput',
    plots: [
      {
        name: 'operations',
        unit: 'rate',
        series: ['reads', 'writes', 'native_requests'],
        section: 'Requests',
      },
      { name: 'failures', unit: 'rate', series: ['errors', 'throttled'], section: 'Requests' },
      { name: 'changes', unit: 'rate', series: ['transactions', 'events'], section: 'Watching' },
      {
        name: 'peers',
        unit: 'bytes_rate',
        series: ['peer_received_bytes', 'peer_sent_bytes'],
        section: 'Between replicas',
      },
    ],
  },
  {
    name: 'latency',
    plots: [
      {
        name: 'write_time',
        unit: 'ms',
        series: ['write_p50_ms', 'write_p99_ms'],
        section: 'Requests',
      },
      {
        name: 'read_time',
        unit: 'ms',
        series: ['read_p50_ms', 'read_p99_ms'],
        section: 'Requests',
      },
      { name: 'lag', unit: 'ms', series: ['lag_ms'], section: 'Roles and progress' },
      { name: 'inside', unit: 'count', series: ['outstanding', 'behind'], section: 'Requests' },
    ],
  },
  {
    name: 'clients',
    plots: [
      {
        name: 'sessions',
        unit: 'count',
        series: ['sessions', 'ephemerals'],
        section: 'What is stored',
      },
      { name: 'expired', unit: 'rate', series: ['sessions_expired'], section: 'What is stored' },
      { name: 'watches', unit: 'count', series: ['watches', 'streams'], section: 'Watching' },
      {
        name: 'connections',
        unit: 'count',
        series: ['connections', 'sockets', 'native'],
        section: 'HTTP',
      },
    ],
  },
  {
    name: 'disk',
    plots: [
      {
        name: 'sync_time',
        unit: 'ms',
        series: ['log_sync_p50_ms', 'log_sync_p99_ms'],
        section: 'Log, snapshots, disk',
      },
      { name: 'syncs', unit: 'rate', series: ['log_syncs'], section: 'Log, snapshots, disk' },
      { name: 'log_queue', unit: 'count', series: ['log_queue'], section: 'Log, snapshots, disk' },
      { name: 'log_size', unit: 'bytes', series: ['log_bytes'], section: 'Log, snapshots, disk' },
    ],
  },
  {
    name: 'memory',
    plots: [
      {
        name: 'memory',
        unit: 'bytes',
        series: ['memory_bytes', 'data_bytes'],
        section: 'What is stored',
      },
      { name: 'znodes', unit: 'count', series: ['znodes'], section: 'What is stored' },
      { name: 'cpu', unit: 'share', series: ['cpu'], section: 'What is stored' },
      { name: 'serving', unit: 'flag', series: ['serving'], section: 'Roles and progress' },
    ],
  },
];

/** `more` behind `past`, as far back as `seconds`. */
export function join(past: MetricsHistory | undefined, more: MetricsHistory, seconds: number) {
  const kept = Math.ceil(seconds / more.step);
  if (past?.step !== more.step) {
    return cut(more, kept);
  }
  const known = past.times.length;
  const series: MetricsHistory['series'] = {};
  for (const [name, values] of Object.entries(more.series)) {
    series[name] = [...(past.series[name] ?? new Array<null>(known).fill(null)), ...values];
  }
  return cut({ step: more.step, times: [...past.times, ...more.times], series }, kept);
}

function cut({ step, times, series }: MetricsHistory, kept: number): MetricsHistory {
  return {
    step,
    times: times.slice(-kept),
    series: Object.fromEntries(
      Object.entries(series).map(([name, values]) => [name, values.slice(-kept)]),
    ),
  };
}

// ---- The text of Prometheus. ----

export interface Sample {
  labels: string;
  value: number;
}

export interface Family {
  name: string;
  type: string;
  help: string;
  samples: Sample[];
}

/** Histograms become how many, how long on average, and up to where 99 in 100 lie. */
export function parseMetrics(text: string): Family[] {
  const families = new Map<string, Family>();
  const buckets = new Map<string, Map<string, [number, number][]>>();
  for (const line of text.split('\n')) {
    const [, word, of, rest = ''] = /^# (HELP|TYPE) (\S+) ?(.*)$/.exec(line) ?? [];
    if (word && of) {
      const family = families.get(of) ?? { name: of, type: '', help: '', samples: [] };
      families.set(of, word === 'HELP' ? { ...family, help: rest } : { ...family, type: rest });
      continue;
    }
    const [, name, labels = '', value = ''] =
      /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/.exec(line) ?? [];
    if (name) {
      take(families, buckets, name, labels, Number(value));
    }
  }
  for (const [name, byLabels] of buckets) {
    families.get(name)?.samples.push(...quantiles(byLabels));
  }
  return [...families.values()];
}

function take(
  families: Map<string, Family>,
  buckets: Map<string, Map<string, [number, number][]>>,
  name: string,
  labels: string,
  value: number,
): void {
  const plain = families.get(name);
  if (plain) {
    plain.samples.push({ labels, value });
    return;
  }
  const [, of = '', part] = /^(.*)_(bucket|sum|count)$/.exec(name) ?? [];
  const family = families.get(of);
  if (!family || part !== 'bucket') {
    family?.samples.push({ labels: joined(labels, `${part}`), value });
    return;
  }
  const le = /(?:^|,)le="([^"]+)"/.exec(labels)?.[1] ?? '+Inf';
  const rest = labels.replace(/,?le="[^"]+"/, '').replace(/^,/, '');
  const all = buckets.get(of) ?? new Map<string, [number, number][]>();
  const bounds = all.get(rest) ?? [];
  bounds.push([le === '+Inf' ? Number.POSITIVE_INFINITY : Number(le), value]);
  all.set(rest, bounds);
  buckets.set(of, all);
}

function joined(labels: string, more: string): string {
  return labels ? `${labels}, ${more}` : more;
}

/** The bound of the bucket that the 99th of 100 lies in. */
function quantiles(byLabels: Map<string, [number, number][]>): Sample[] {
  return [...byLabels].flatMap(([labels, bounds]) => {
    const total = bounds.at(-1)?.[1] ?? 0;
    const bound = bounds.find(([, count]) => count >= total * 0.99)?.[0];
    return total > 0 && bound !== undefined
      ? [{ labels: joined(labels, '99 % ≤'), value: bound }]
      : [];
  });
}
