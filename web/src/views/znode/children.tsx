import type { ChildEntry } from '../../api/types';
import { socket } from '../../app/cluster';
import { identity } from '../../app/identity';
import { urlOf } from '../../app/router';
import { byteSize } from '../../format/bytes';
import { childOf } from '../../format/path';
import { visibleName } from '../../format/text';
import { relativeTime } from '../../format/time';
import { locale } from '../../i18n';
import { Empty, Failure, Loading } from '../../ui/state';
import { Table } from '../../ui/table';
import { Markers } from '../tree/markers';
import { say } from './texts';
import { useRead } from './use_read';

const SHOWN = 200;

/** `version` changes with the children. */
export function ChildrenTab({ path, version }: { path: string; version: string }) {
  const { value, error, again } = useRead(
    () => socket.read('children', { path, with: 'stat', limit: SHOWN }),
    [path, version, identity.value],
  );
  if (error) {
    return <Failure error={error} onRetry={again} />;
  }
  if (!value) {
    return <Loading />;
  }
  if (value.children.length === 0) {
    return <Empty>{say('children_none')}</Empty>;
  }
  return (
    <>
      <ChildrenTable path={path} rows={value.children} />
      {value.more && (
        <p class="hint">
          {say('children_shown', { shown: value.children.length, total: value.stat.numChildren })}
        </p>
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
