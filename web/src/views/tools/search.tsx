// Names and data, looked through by the replica: some thousand znodes with each request, and as many
// requests as it takes to find something, up to a bound.

import { useSignal } from '@preact/signals';
import { useEffect, useId, useRef } from 'preact/hooks';
import type { ApiError } from '../../api/error';
import type { SearchReply } from '../../api/types';
import { socket } from '../../app/cluster';
import { identity } from '../../app/identity';
import { navigate, route, urlOf } from '../../app/router';
import { byteSize } from '../../format/bytes';
import { visibleName } from '../../format/text';
import { relativeTime } from '../../format/time';
import { Button } from '../../ui/button';
import { Empty, Failure } from '../../ui/state';
import { Table } from '../../ui/table';
import { PathField, typed, typedPath } from './path_field';
import { say } from './texts';

const PAGE = 100; // Found znodes of one request.
const REQUESTS_MAX = 20; // Of one click: some hundred thousand znodes.
const SHOWN_MAX = 2_000; // Rows; more than anybody reads.

type Hit = SearchReply['nodes'][number];

interface Results {
  hits: Hit[];
  looked: number;
  after: string | undefined; // There are more behind it.
  running: boolean;
  error?: ApiError;
}

const NONE: Results = { hits: [], looked: 0, after: undefined, running: false };

interface Query {
  path: string;
  name: string;
  data: string;
}

function useSearch(query: Query) {
  const results = useSignal<Results>(NONE);
  const run = useRef(0); // Of the search that may still write results.
  const search = async (from: Results) => {
    run.current += 1;
    const own = run.current;
    let now: Results = { ...from, running: true };
    results.value = now;
    try {
      for (let asked = 0; asked < REQUESTS_MAX && now.running; asked += 1) {
        const reply = await socket.read('search', members(query, now.after));
        if (own !== run.current) {
          return;
        }
        now = add(now, reply, from.hits.length);
        results.value = now;
      }
      results.value = { ...now, running: false };
    } catch (error) {
      if (own === run.current) {
        results.value = { ...now, running: false, error: error as ApiError };
      }
    }
  };
  const stop = () => {
    run.current += 1;
    results.value = { ...results.peek(), running: false };
  };
  useEffect(() => {
    if (query.name || query.data) {
      void search(NONE);
    }
    return stop;
  }, [query.path, query.name, query.data, identity.value]);
  return { results, search, stop };
}

function members({ path, name, data }: Query, after: string | undefined): object {
  return {
    path,
    limit: PAGE,
    with: 'stat',
    ...(name ? { name } : {}),
    ...(data ? { data } : {}),
    ...(after ? { after } : {}),
  };
}

/** Enough for one click is a page of hits, or the end. */
function add(now: Results, reply: SearchReply, before: number): Results {
  const hits = [...now.hits, ...reply.nodes].slice(0, SHOWN_MAX);
  return {
    hits,
    looked: now.looked + reply.looked,
    after: reply.more && hits.length < SHOWN_MAX ? reply.after : undefined,
    running: reply.more && hits.length - before < PAGE && hits.length < SHOWN_MAX,
  };
}

export function Search({ path }: { path: string }) {
  const { query } = route.value;
  const asked = { path, name: query.get('name') ?? '', data: query.get('data') ?? '' };
  const { results, search, stop } = useSearch(asked);
  const { error } = results.value;
  return (
    <>
      <SearchForm query={asked} />
      {error && <Failure error={error} onRetry={() => void search(results.peek())} />}
      {(asked.name || asked.data) && (
        <Found results={results.value} onMore={() => void search(results.peek())} onStop={stop} />
      )}
    </>
  );
}

function SearchForm({ query: { path, name, data } }: { query: Query }) {
  const hint = useId();
  return (
    <form
      class="form tool-form"
      onSubmit={(event) => {
        event.preventDefault();
        const form = event.currentTarget;
        const wanted = { name: typed(form, 'name').trim(), data: typed(form, 'data') };
        const given = Object.entries(wanted).filter(([, value]) => value !== '');
        navigate(urlOf('tools', typedPath(form), Object.fromEntries(given)));
      }}
    >
      <PathField path={path} />
      <label>
        {say('search_name')}
        <input
          name="name"
          data-filter
          maxLength={256}
          spellcheck={false}
          autocomplete="off"
          defaultValue={name}
          aria-describedby={hint}
        />
        <span class="hint" id={hint}>
          {say('search_name_hint')}
        </span>
      </label>
      <label>
        {say('search_data')}
        <input name="data" spellcheck={false} autocomplete="off" defaultValue={data} />
      </label>
      <footer>
        <Button kind="primary" type="submit" icon="search">
          {say('search_start')}
        </Button>
      </footer>
    </form>
  );
}

interface FoundProps {
  results: Results;
  onMore: () => void;
  onStop: () => void;
}

function summaryOf({ hits, looked, after, running }: Results): string {
  const more = after !== undefined || running;
  if (hits.length === 0) {
    return say(more ? 'search_none_yet' : 'search_none', { looked });
  }
  if (hits.length >= SHOWN_MAX) {
    return say('search_found_many', { found: hits.length, looked });
  }
  return say(more ? 'search_found' : 'search_found_all', { found: hits.length, looked });
}

function Found({ results, onMore, onStop }: FoundProps) {
  const { hits, after, running, error } = results;
  const nothing = hits.length === 0 && !running && !after && !error;
  return (
    <>
      {nothing ? (
        <Empty icon="search">{summaryOf(results)}</Empty>
      ) : (
        <div class="bar tool-bar">
          <span role="status" class="hint">
            {summaryOf(results)}
          </span>
          {running && <span class="spinner" aria-hidden="true" />}
          {running && <Button onClick={onStop}>{say('cancel')}</Button>}
          {!running && after && <Button onClick={onMore}>{say('search_more')}</Button>}
        </div>
      )}
      {hits.length > 0 && <Hits hits={hits} />}
    </>
  );
}

function Hits({ hits }: { hits: Hit[] }) {
  return (
    <Table
      caption={say('search')}
      rows={hits}
      keyOf={({ path }) => path}
      columns={[
        {
          name: 'path',
          title: say('search_path'),
          cell: ({ path }) => (
            <a href={urlOf('tree', path)}>
              <bdi>{visibleName(path)}</bdi>
            </a>
          ),
        },
        {
          name: 'changed',
          title: say('search_changed'),
          cell: ({ stat }) =>
            stat ? relativeTime(stat.mtime) : <span class="hint">{say('search_hidden')}</span>,
        },
        {
          name: 'size',
          title: say('search_size'),
          numeric: true,
          cell: ({ stat }) => (stat ? byteSize(stat.dataLength) : '—'),
        },
      ]}
    />
  );
}
