// All that a replica counts, as a scrape gets it, each with what it says.

import { http } from '../../app/cluster';
import { route } from '../../app/router';
import { epochCounter } from '../../format/zxid';
import { locale } from '../../i18n';
import { Docs } from '../../ui/docs';
import { Empty, Failure, Loading } from '../../ui/state';
import { Table } from '../../ui/table';
import { useLive } from '../../ui/use_live';
import { type Family, parseMetrics } from './series';
import { say } from './texts';
import { change } from './url';

const LOOK_MS = 5_000;
const SAMPLES_MAX = 12; // Of one metric, before a search names them.

async function scrape(at: string | undefined): Promise<Family[]> {
  const answer = await http.get('/metrics', {}, at);
  return parseMetrics(await answer.text());
}

/** A zxid is one number there; people read epoch and counter. */
function number(value: number, name = ''): string {
  if (!Number.isFinite(value)) {
    return '∞';
  }
  if (name.endsWith('_zxid')) {
    return epochCounter(`0x${value.toString(16)}`);
  }
  return value.toLocaleString(locale(), { maximumSignificantDigits: value < 1 ? 3 : 17 });
}

function found(family: Family, wanted: string): boolean {
  return [family.name, family.help].some((text) => text.toLowerCase().includes(wanted));
}

export function AllMetrics({ at }: { at: string | undefined }) {
  const { live, again } = useLive(() => scrape(at), LOOK_MS, [at]);
  const { value, error } = live.value;
  const search = route.value.query.get('search') ?? '';
  const shown = value?.filter((family) => found(family, search.trim().toLowerCase())) ?? [];
  return (
    <section class="panel" aria-labelledby="all-metrics">
      <header>
        <h2 id="all-metrics">{say('all')}</h2>
        {value && (
          <span class="hint">{say('count', { shown: shown.length, total: value.length })}</span>
        )}
      </header>
      <div class="bar metrics-search">
        <input
          type="search"
          data-filter
          aria-label={say('search')}
          placeholder={say('search')}
          value={search}
          onInput={(event) => change('search', event.currentTarget.value)}
        />
      </div>
      <p class="hint panel-note">
        {say('all_hint')} <Docs page="metrics" />
      </p>
      {error && <Failure error={error} onRetry={again} />}
      {!value && !error && <Loading />}
      {value && shown.length === 0 && <Empty icon="search">{say('no_match')}</Empty>}
      {shown.length > 0 && <Families families={shown} />}
    </section>
  );
}

function Families({ families }: { families: Family[] }) {
  return (
    <Table
      caption={say('all')}
      rows={families}
      keyOf={({ name }) => name}
      columns={[
        {
          name: 'metric',
          title: say('metric'),
          cell: ({ name, type }) => (
            <>
              <code>{name}</code>
              <br />
              <span class="hint">{type}</span>
            </>
          ),
        },
        { name: 'value', title: say('value'), cell: (family) => <Samples family={family} /> },
        {
          name: 'what',
          title: say('what'),
          cell: ({ help }) => <span class="metrics-help">{help}</span>,
        },
      ]}
    />
  );
}

function Samples({ family: { name, samples } }: { family: Family }) {
  const [first] = samples;
  if (samples.length === 1 && first && first.labels === '') {
    return <strong class="metrics-value">{number(first.value, name)}</strong>;
  }
  return (
    <ul class="metrics-samples">
      {samples.slice(0, SAMPLES_MAX).map(({ labels, value }) => (
        <li key={labels}>
          <code>{labels}</code> <strong class="metrics-value">{number(value)}</strong>
        </li>
      ))}
      {samples.length > SAMPLES_MAX && (
        <li>
          <details>
            <summary>+ {samples.length - SAMPLES_MAX}</summary>
            <ul class="metrics-samples">
              {samples.slice(SAMPLES_MAX).map(({ labels, value }) => (
                <li key={labels}>
                  <code>{labels}</code> <strong class="metrics-value">{number(value)}</strong>
                </li>
              ))}
            </ul>
          </details>
        </li>
      )}
    </ul>
  );
}
