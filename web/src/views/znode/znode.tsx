// One znode: its data first, then all else that is known of it. Live: a watch tells when it changes.

import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import type { ApiError } from '../../api/error';
import type { DataReply } from '../../api/types';
import { socket } from '../../app/cluster';
import { identity } from '../../app/identity';
import { navigate, route, urlOf } from '../../app/router';
import { fromBase64 } from '../../format/bytes';
import { ancestorsOf, nameOf } from '../../format/path';
import { visibleName } from '../../format/text';
import { relativeTime } from '../../format/time';
import { Copy } from '../../ui/copy';
import { Empty, Failure, Loading } from '../../ui/state';
import { Tabs } from '../../ui/tabs';
import { Markers } from '../tree/markers';
import { AclTab } from './acl';
import { ChildrenTab } from './children';
import { DataTab } from './data';
import { StatTab } from './stat';
import { say } from './texts';

const TABS = ['data', 'stat', 'children', 'acl'] as const;

type Tab = (typeof TABS)[number];

/** What was read of a znode, or why it was not. */
export interface Loaded {
  reply?: DataReply;
  /** null: the data is null. */
  bytes?: Uint8Array<ArrayBuffer> | null;
  error?: ApiError;
}

/** The znode as it is now. `undefined` until the first answer. */
function useZnode(path: string) {
  const loaded = useSignal<Loaded | undefined>(undefined);
  const read = () =>
    socket.read('get', { path, dataformat: 'base64' }).then(
      (reply) => {
        const bytes = reply.data64 === undefined ? null : fromBase64(reply.data64);
        loaded.value = { reply, bytes };
      },
      (error: ApiError) => {
        loaded.value = { error };
      },
    );
  useEffect(() => {
    void read();
    return socket.watch({
      path,
      kind: 'persistent',
      onChange: () => void read(),
      onReset: () => void read(),
    });
  }, [path, identity.value]);
  return { loaded, read };
}

export function Znode({ path }: { path: string }) {
  const { loaded, read } = useZnode(path);
  const { reply, bytes, error } = loaded.value ?? {};
  return (
    <article class="znode">
      <Breadcrumbs path={path} />
      {error &&
        (error.code === 'NoNode' ? (
          <Empty icon="search">{say('gone')}</Empty>
        ) : (
          <Failure error={error} onRetry={read} />
        ))}
      {!loaded.value && <Loading />}
      {reply && (
        <>
          <Heading path={path} reply={reply} />
          <ZnodeTabs path={path} reply={reply} bytes={bytes ?? null} />
        </>
      )}
    </article>
  );
}

function Breadcrumbs({ path }: { path: string }) {
  const steps = ancestorsOf(path);
  return (
    <nav class="breadcrumbs" aria-label={say('parents')}>
      <ol>
        {steps.map((one) => (
          <li key={one}>
            {one === path ? (
              <bdi aria-current="page">{visibleName(nameOf(one))}</bdi>
            ) : (
              <a href={urlOf('tree', one)}>
                <bdi>{visibleName(nameOf(one))}</bdi>
              </a>
            )}
          </li>
        ))}
      </ol>
      <Copy text={path} label={say('copy_path')} />
    </nav>
  );
}

function Heading({ path, reply: { stat } }: { path: string; reply: DataReply }) {
  return (
    <header class="znode-heading">
      <h2>
        <bdi>{visibleName(nameOf(path))}</bdi>
        <Markers entry={{ name: nameOf(path), stat }} />
      </h2>
      <span class="hint">
        {say('changed')} {relativeTime(stat.mtime)}
      </span>
    </header>
  );
}

function ZnodeTabs({
  path,
  reply,
  bytes,
}: {
  path: string;
  reply: DataReply;
  bytes: Uint8Array<ArrayBuffer> | null;
}) {
  const asked = route.value.query.get('tab');
  const tab: Tab = TABS.find((one) => one === asked) ?? 'data';
  return (
    <Tabs
      label={path}
      selected={tab}
      onSelect={(name) => navigate(urlOf('tree', path, { tab: name }), true)}
      tabs={TABS.map((name) => ({
        name,
        title: say(name),
        ...(name === 'children' ? { count: reply.stat.numChildren } : {}),
      }))}
    >
      {tab === 'data' && <DataTab path={path} bytes={bytes} />}
      {tab === 'stat' && <StatTab stat={reply.stat} />}
      {tab === 'children' && <ChildrenTab path={path} version={`${reply.stat.pzxid}`} />}
      {tab === 'acl' && <AclTab path={path} version={reply.stat.aversion} />}
    </Tabs>
  );
}
