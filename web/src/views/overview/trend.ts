// The last minutes of the replica that serves, kept up second by second.

import { type Signal, signal } from '@preact/signals';
import type { MetricsHistory } from '../../api/types';

export const KEPT = 900; // Seconds: as many as the replica keeps.

export const SERIES = [
  'reads',
  'writes',
  'write_p50_ms',
  'write_p99_ms',
  'log_sync_p50_ms',
  'log_sync_p99_ms',
  'connections',
  'sockets',
  'native',
  'sessions',
] as const;

export type Series = (typeof SERIES)[number];

export interface Recent {
  times: number[];
  series: Partial<Record<Series, (number | null)[]>>;
}

export type Ask = (query: Record<string, string | number>) => Promise<MetricsHistory>;

export class Trend {
  readonly recent: Signal<Recent> = signal({ times: [], series: {} });
  private readonly ask: Ask;
  private asking = false;

  constructor(ask: Ask) {
    this.ask = ask;
  }

  /** Another replica serves: its past is another one. */
  restart(): void {
    this.recent.value = { times: [], series: {} };
    this.asking = false; // What is still to come from the old one is not taken.
  }

  /** What has come since the last time; all of it at first. Silent when it fails: the next one follows. */
  async look(): Promise<void> {
    if (this.asking) {
      return;
    }
    this.asking = true;
    const before = this.recent.peek();
    const since = before.times.at(-1);
    try {
      const more = await this.ask({ series: SERIES.join(','), ...(since ? { since } : {}) });
      if (this.recent.peek() === before) {
        this.recent.value = append(before, more);
      }
    } catch {
      // Whether the replica answers at all is said elsewhere.
    } finally {
      this.asking = false;
    }
  }
}

export function append({ times, series }: Recent, more: MetricsHistory): Recent {
  const known = times.length;
  const joined: Recent = { times: [...times, ...more.times].slice(-KEPT), series: {} };
  for (const name of SERIES) {
    const old = series[name] ?? new Array<null>(known).fill(null);
    joined.series[name] = [...old, ...(more.series[name] ?? [])].slice(-KEPT);
  }
  return joined;
}
