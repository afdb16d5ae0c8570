import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import type { ChildEntry } from '../../api/types';
import { socket } from '../../app/cluster';
import { identity } from '../../app/identity';
import { urlOf } from '../../app/router';
import { byteSize } from '../../format/bytes';
import { isPattern } from '../../format/glob';
import { childOf } from '../../format/path';
import { visibleName } from '../../format/text';
import { relativeTime } from '../../format/time';
import { locale } from '../../i18n';
import { Button } from '../../ui/button';
import { Empty, Failure, Loading } from '../../ui/state';
import { Table } from '../../ui/table';
import { Markers } from '../tree/markers';
import { SEEK_MS, seekChildren } from '../tree/seek';
import { say } from './texts';
import { useRead } from './use_read';

const SHOWN = 200;

interface Listed {
  entries: ChildEntry[];
  more: boolean;
  /** Where the search continues; undefined: it has looked at all children. */
  next?: Sought | undefined;
}

/** A filter that was looked for up to the path `from`. */
interface Sought {
  path: string;
  filter: string;
  from: string | undefined;
}

/** The first children, or the first of those that fit, behind `from`: of very many the replica finds
 * them. */
async function list(path: string, filter: string, from: string | undefined): Promise<Listed> {
  if (filter === '') {
    const page = await socket.read('children', { path, with: 'stat', limit: SHOWN });
    return { entries: page.children, more: page.more };
  }
  const part = await seekChildren(socket, path, filter, { enough: SHOWN, after: from });
  const entries = part.entries.slice(0, SHOWN);
  const last = entries.at(-1);
  const after = last && part.entries.length > SHOWN ? childOf(path, last.name) : part.after;
  const next = after === undefined ? undefined : { path, filter, from: after };
  return { entries, more: next !== undefined, next };
}

/** What was typed, once nothing more comes for a while. */
function useSettled(text: string): string {
  const settled = useSignal(text);
  useEffect(() => {
    const timer = setTimeout(() => {
      settled.value = text;
    }, SEEK_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return settled.value;
}

interface Props {
  path: string;
  /** Changes with the children. */
  version: string;
  total: number;
}

export function ChildrenTab({ path, version, total }: Props) {
  const typed = useSignal('');
  const filter = useSettled(typed.value.trim());
  const sought = useSignal<Sought>({ path, filter, from: undefined });
  const same = sought.value.path === path && sought.value.filter === filter;
  const from = same ? sought.value.from : undefined;
  const { value, error, again } = useRead(
    () => list(path, filter, from),
    [path, version, filter, from, identity.value],
  );
  const goOn = (next: Sought) => {
    sought.value = next;
  };
  if (total === 0 && filter === '') {
    return error ? (
      <Failure error={error} onRetry={again} />
    ) : (
      <Empty>{say('children_none')}</Empty>
    );
  }
  return (
    <>
      <div class="bar">
        <input
          type="search"
          aria-label={say('children_filter')}
          placeholder={say('children_filter')}
          value={typed}
          onInput={(event) => {
            typed.value = event.currentTarget.value;
          }}
        />
      </div>
      {error && <Failure error={error} onRetry={again} />}
      {!value && !error && <Loading />}
      {value && <Shown path={path} listed={value} filter={filter} total={total} onGoOn={goOn} />}
    </>
  );
}

interface ShownProps {
  path: string;
  listed: Listed;
  filter: string;
  total: number;
  onGoOn: (next: Sought) => void;
}

function noneOf(filter: string) {
  if (filter === '') {
    return 'children_none';
  }
  return isPattern(filter) ? 'children_unfit_whole' : 'children_unfit';
}

function Shown({ path, listed: { entries, more, next }, filter, total, onGoOn }: ShownProps) {
  if (entries.length === 0 && next) {
    return (
      <>
        <Empty>{say('children_unfit_yet')}</Empty>
        <div class="bar">
          <Button onClick={() => onGoOn(next)}>{say('children_further')}</Button>
        </div>
      </>
    );
  }
  if (entries.length === 0) {
    return <Empty>{say(noneOf(filter))}</Empty>;
  }
  const shown = entries.length;
  return (
    <>
      <ChildrenTable path={path} rows={entries} />
      {more && !next && <p class="hint">{say('children_shown', { shown, total })}</p>}
      {next && (
        <>
          <p class="hint">{say('children_found', { shown })}</p>
          <div class="bar">
            <Button onClick={() => onGoOn(next)}>{say('children_further')}</Button>
          </div>
        </>
      )}
    </>
  );
}

function ChildrenTable({ path, rows }: { path: string; rows: ChildEntry[] }) {
  return (
    <Table
      caption={say('children')}
      rows={rows}
      keyOf={({ name }) => name}
      columns={[
        {
          name: 'name',
          title: say('children_name'),
          cell: (entry) => (
            <span class="child">
              <a href={urlOf('tree', childOf(path, entry.name))}>
                <bdi>{visibleName(entry.name)}</bdi>
              </a>
              <Markers entry={entry} />
            </span>
          ),
        },
        {
          name: 'changed',
          title: say('stat_mtime'),
          cell: ({ stat }) => (stat ? relativeTime(stat.mtime) : '—'),
        },
        {
          name: 'version',
          title: say('stat_version'),
          numeric: true,
          cell: ({ stat }) => stat?.version ?? '—',
        },
        {
          name: 'size',
          title: say('size'),
          numeric: true,
          cell: ({ stat }) => (stat ? byteSize(stat.dataLength) : '—'),
        },
        {
          name: 'children',
          title: say('children'),
          numeric: true,
          cell: ({ stat }) => stat?.numChildren.toLocaleString(locale()) ?? '—',
        },
      ]}
    />
  );
}
