// What a replica counts: the recent past as curves, and all of now. The URL has the range, the replica and
// the search.

import { useComputed, useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import type { ApiError } from '../../api/error';
import type { MetricsHistory } from '../../api/types';
import { clientOf, ensemble, http, socket } from '../../app/cluster';
import { route } from '../../app/router';
import { byteSize } from '../../format/bytes';
import { locale } from '../../i18n';
import { Docs } from '../../ui/docs';
import { type Curve, Plot } from '../../ui/plot';
import { Failure, Loading } from '../../ui/state';
import { AllMetrics } from './all';
import { GROUPS, type Group, join, type PlotOf, RANGES, type Range, type Unit } from './series';
import { say } from './texts';
import { change } from './url';

const LOOK_MS = 2_000;
const COLOURS = ['curve-1', 'curve-2', 'curve-3', 'curve-4'] as const;

type Key = Parameters<typeof say>[0];

const count = (value: number) =>
  value.toLocaleString(locale(), {
    maximumFractionDigits: value < 10 ? 2 : 0,
    notation: value < 100_000 ? 'standard' : 'compact',
  });

const formats: Record<Unit, (value: number) => string> = {
  rate: count,
  count,
  share: count,
  flag: count,
  ms: (value) => `${count(value)} ms`,
  bytes: byteSize,
  bytes_rate: byteSize,
};

/** Which replica is asked, and where; the one that serves the page unless the URL says otherwise. */
function useReplica(): { id: number; at: string | undefined } {
  const serving = socket.hello.value?.server ?? 0;
  const asked = Number(route.value.query.get('replica') ?? 0);
  const at = asked !== 0 && asked !== serving ? clientOf(asked) : undefined;
  return at ? { id: asked, at } : { id: serving, at: undefined };
}

export default function MetricsView() {
  const { query } = route.value;
  const range = (Object.keys(RANGES) as Range[]).find((one) => one === query.get('range')) ?? '15m';
  const replica = useReplica();
  return (
    <div class="page metrics">
      <h1 class="sr-only">{say('title')}</h1>
      <Bar range={range} replica={replica.id} />
      <History key={`${replica.id} ${range}`} range={range} at={replica.at} />
      <AllMetrics key={replica.id} at={replica.at} />
    </div>
  );
}

function Bar({ range, replica }: { range: Range; replica: number }) {
  const others = ensemble.value?.members.filter(({ id, client }) => client || id === replica) ?? [];
  return (
    <div class="metrics-head">
      <div class="bar">
        <select
          aria-label={say('replica')}
          value={String(replica)}
          onChange={(event) => change('replica', event.currentTarget.value)}
        >
          {others.map(({ id }) => (
            <option key={id} value={String(id)}>
              {say('at', { id })}
            </option>
          ))}
        </select>
        <select
          aria-label={say('range')}
          value={range}
          onChange={(event) => change('range', event.currentTarget.value)}
        >
          {Object.keys(RANGES).map((one) => (
            <option key={one} value={one}>
              {say(`range_${one as Range}`)}
            </option>
          ))}
        </select>
        <nav class="metrics-groups" aria-label={say('groups')}>
          {GROUPS.map(({ name }) => (
            <button
              key={name}
              type="button"
              class="link"
              onClick={() => document.getElementById(`group-${name}`)?.scrollIntoView()}
            >
              {say(`group_${name}`)}
            </button>
          ))}
        </nav>
      </div>
      <p class="hint">
        {say('of', { id: replica })} {say('of_hole')}
      </p>
    </div>
  );
}

/** What has come since the last time is put behind what is there. */
function useHistory(range: Range, at: string | undefined) {
  const history = useSignal<MetricsHistory | undefined>(undefined);
  const error = useSignal<ApiError | undefined>(undefined);
  useEffect(() => {
    let ended = false;
    let asking = false;
    const { seconds, step } = RANGES[range];
    const look = async () => {
      if (asking) {
        return;
      }
      asking = true;
      const since = history.peek()?.times.at(-1);
      try {
        const query = { step, ...(since ? { since } : {}) };
        const more = await http.json<MetricsHistory>('/metrics/history/v1', query, at);
        if (!ended) {
          history.value = join(history.peek(), more, seconds);
          error.value = undefined;
        }
      } catch (thrown) {
        error.value = thrown as ApiError;
      }
      asking = false;
    };
    void look();
    const timer = setInterval(
      () => {
        if (!document.hidden && socket.link.peek() === 'live') {
          void look();
        }
      },
      step === 1 ? LOOK_MS : step * 1_000,
    );
    return () => {
      ended = true;
      clearInterval(timer);
    };
  }, [range, at]);
  return { history, error };
}

function History({ range, at }: { range: Range; at: string | undefined }) {
  const { history, error } = useHistory(range, at);
  const known = useComputed(() => history.value !== undefined);
  if (error.value) {
    return <Failure error={error.value} />;
  }
  if (!known.value || !history.value) {
    return <Loading />;
  }
  return (
    <>
      {GROUPS.map((group) => (
        <GroupOf key={group.name} group={group} history={history.value as MetricsHistory} />
      ))}
    </>
  );
}

function GroupOf({ group: { name, plots }, history }: { group: Group; history: MetricsHistory }) {
  return (
    <section aria-labelledby={`group-${name}`} class="metrics-group">
      <h2 id={`group-${name}`}>{say(`group_${name}`)}</h2>
      <div class="plots">
        {plots.map((plot) => (
          <OnePlot key={plot.name} plot={plot} history={history} />
        ))}
      </div>
    </section>
  );
}

function titleOf(series: string): string {
  if (series.endsWith('_p50_ms')) {
    return say('series_half');
  }
  return series.endsWith('_p99_ms') ? say('series_most') : say(`series_${series}` as Key);
}

function OnePlot({
  plot: { name, unit, series, section },
  history,
}: {
  plot: PlotOf;
  history: MetricsHistory;
}) {
  return (
    <div class="panel">
      <Plot
        title={say(`plot_${name}` as Key)}
        times={history.times}
        format={formats[unit]}
        curves={series.map(
          (one, at): Curve => ({
            title: titleOf(one),
            colour: COLOURS[at] ?? 'curve-1',
            values: history.series[one] ?? [],
          }),
        )}
      />
      <p class="metrics-docs">
        <Docs page="metrics" section={section} />
      </p>
    </div>
  );
}
