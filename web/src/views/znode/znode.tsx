// One znode: its data first, then all else that is known of it. Live: a watch tells when it changes.

import { type Signal, useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import type { ApiError } from '../../api/error';
import { Looks } from '../../api/looks';
import type { DataReply } from '../../api/types';
import { socket } from '../../app/cluster';
import { identity } from '../../app/identity';
import { heldBack, keepHere, navigate, route, urlOf } from '../../app/router';
import { page } from '../../app/seen';
import { fromBase64 } from '../../format/bytes';
import { ancestorsOf, nameOf } from '../../format/path';
import { visibleName } from '../../format/text';
import { Ago } from '../../ui/ago';
import { Button } from '../../ui/button';
import { Copy } from '../../ui/copy';
import { Icon, type IconName } from '../../ui/icon';
import { Empty, Failure, Loading } from '../../ui/state';
import { Tabs } from '../../ui/tabs';
import { Tooltip } from '../../ui/tooltip';
import { bookmarks, toggleBookmark } from '../tree/bookmarks';
import { Markers } from '../tree/markers';
import type { AclDraft } from './acl/model';
import { AclTab } from './acl/tab';
import { Actions, type Open } from './actions';
import { ChildrenTab } from './children';
import { DataTab } from './data';
import { Draft, isLater, type Seen } from './edit/draft';
import { Discard, Editing } from './edit/editing';
import { say as sayEdit } from './edit/texts';
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

const NOTHING = new Uint8Array(0);
const PACE = { settle: 0, rest: 200 }; // Of reads of what changes all the time.

/** The znode as it is now. `undefined` until the first answer. */
function useZnode(path: string, draft: Signal<Draft | undefined>) {
  const loaded = useSignal<Loaded | undefined>(undefined);
  const show = (seen: Loaded) => {
    loaded.value = seen;
    if (seen.reply) {
      draft.peek()?.observe({ stat: seen.reply.stat, bytes: seen.bytes ?? NOTHING });
    } else if (seen.error?.code === 'NoNode') {
      draft.peek()?.observe('gone');
    }
  };
  const read = () =>
    socket.read('get', { path, dataformat: 'base64', perms: true }).then(
      (reply) =>
        show({ reply, bytes: reply.data64 === undefined ? null : fromBase64(reply.data64) }),
      (error: ApiError) => show({ error }),
    );
  useEffect(() => {
    const looks = new Looks(read, PACE, page);
    const changed = () => looks.soon();
    const unwatch = socket.watch({
      path,
      kind: 'persistent',
      onChange: changed,
      onReset: changed,
    });
    void read(); // Behind the watch, which tells what changes after the answer.
    return () => {
      looks.stop();
      unwatch();
    };
  }, [path, identity.value]);
  return { loaded, read };
}

/** Begins to write into what is shown. */
function begin(path: string, { reply, bytes }: Loaded): Draft | undefined {
  if (!reply) {
    return undefined;
  }
  const draft = new Draft(path, { stat: reply.stat, bytes: bytes ?? NOTHING }, socket);
  socket.read('getacl', { path }).then(
    ({ acl }) => {
      draft.acl = acl.every(({ id }) => !id.endsWith(':x')) ? acl : undefined;
    },
    () => undefined, // Then it is not known.
  );
  return draft;
}

export function Znode({ path }: { path: string }) {
  const draft = useSignal<Draft | undefined>(undefined);
  const acl = useSignal<AclDraft | undefined>(undefined);
  const open = useSignal<Open>(undefined); // What is typed there stays, whatever becomes of the znode.
  const { loaded, read } = useZnode(path, draft);
  const { reply, error } = loaded.value ?? {};
  const edit = () => {
    navigate(urlOf('tree', path), true);
    draft.value = begin(path, loaded.peek() ?? {});
  };
  const end = (saved: Seen | undefined) => {
    const { reply: shown } = loaded.peek() ?? {};
    draft.value = undefined;
    if (saved && shown && !isLater(shown.stat, saved.stat)) {
      loaded.value = { reply: { ...shown, stat: saved.stat }, bytes: saved.bytes };
    } else {
      void read();
    }
  };
  const article = useRef<HTMLElement>(null);
  const edits = draft.value !== undefined;
  const edited = useRef(false);
  useEffect(() => {
    if (edited.current && !edits) {
      // After editing by keyboard the focus returns to where it began.
      article.current?.querySelector<HTMLElement>('.actions button')?.focus();
    }
    edited.current = edits;
  }, [edits]);
  return (
    <article ref={article} class="znode">
      <Breadcrumbs path={path} />
      {!loaded.value && <Loading />}
      {reply && <Heading path={path} reply={reply} />}
      {(reply || open.value) && !draft.value && (
        <Actions path={path} perms={reply?.perms} open={open} onEdit={edit} />
      )}
      {error && !draft.value && <Missing error={error} onRetry={read} />}
      <Content
        path={path}
        loaded={loaded.value}
        draft={draft.value}
        acl={acl}
        onEnd={end}
        onRead={() => void read()}
      />
      <Leaving path={path} draft={draft} acl={acl} />
    </article>
  );
}

function Missing({ error, onRetry }: { error: ApiError; onRetry: () => void }) {
  return error.code === 'NoNode' ? (
    <Empty icon="search">{say('gone')}</Empty>
  ) : (
    <Failure error={error} onRetry={onRetry} />
  );
}

interface LeavingProps {
  path: string;
  draft: Signal<Draft | undefined>;
  acl: Signal<AclDraft | undefined>;
}

/** Asks before unsaved text is discarded: by navigation within the page, or by closing it. */
function Leaving({ path, draft, acl }: LeavingProps) {
  useEffect(() => {
    const isDirty = () => [draft, acl].some((one) => one.peek()?.dirty.peek() === true);
    const ask = (event: BeforeUnloadEvent) => isDirty() && event.preventDefault();
    const release = keepHere((to) => isDirty() && !(to.view === 'tree' && to.path === path));
    addEventListener('beforeunload', ask);
    return () => {
      release();
      removeEventListener('beforeunload', ask);
      heldBack.value = undefined;
    };
  }, [path]);
  const go = heldBack.value;
  return go ? (
    <Discard
      path={path}
      go={sayEdit('discard_and_go')}
      onStay={() => {
        heldBack.value = undefined;
      }}
      onGo={() => {
        heldBack.value = undefined;
        draft.value = undefined;
        acl.value = undefined;
        go();
      }}
    />
  ) : null;
}

function Breadcrumbs({ path }: { path: string }) {
  const steps = ancestorsOf(path);
  const marked = bookmarks.value.includes(path);
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
      <Button
        kind="quiet"
        icon="star"
        label={say('bookmark')}
        pressed={marked}
        onClick={() => toggleBookmark(path)}
      />
      <Elsewhere path={path} />
    </nav>
  );
}

/** The same znode in other views. */
function Elsewhere({ path }: { path: string }) {
  const links: [IconName, string, string][] = [
    ['events', say('see_events'), urlOf('events', '/', { watch: `recursive:${path}` })],
    ['recipes', say('see_recipe'), urlOf('recipes', path)],
    ['download', say('see_export'), urlOf('tools', path, { tool: 'export' })],
  ];
  return (
    <>
      {links.map(([icon, text, href]) => (
        <Tooltip key={icon} text={text}>
          <a class="button quiet" href={href} aria-label={text}>
            <Icon name={icon} />
          </a>
        </Tooltip>
      ))}
    </>
  );
}

function Heading({ path, reply: { stat } }: { path: string; reply: DataReply }) {
  return (
    <header class="znode-heading">
      <h2>
        <bdi>{visibleName(nameOf(path))}</bdi>
        <Markers entry={{ name: nameOf(path), stat }} />
      </h2>
      {stat.mtime > 0 && (
        <span class="hint">
          {say('changed')} <Ago ms={stat.mtime} />
        </span>
      )}
    </header>
  );
}

/** Another one when the ACL is, also that of a znode that was made again. */
function aclOf(reply: DataReply | undefined): string {
  return reply ? `${reply.stat.czxid}.${reply.stat.aversion}` : '';
}

interface ContentProps {
  path: string;
  loaded: Loaded | undefined;
  draft: Draft | undefined;
  acl: Signal<AclDraft | undefined>;
  onEnd: (saved: Seen | undefined) => void;
  onRead: () => void;
}

/** What was written stays, whatever has become of the znode. */
function Content({ path, loaded, draft, acl, onEnd, onRead }: ContentProps) {
  const asked = route.value.query.get('tab');
  const tab: Tab = TABS.find((one) => one === asked) ?? 'data';
  const { reply, bytes = null, error } = loaded ?? {};
  const closed = error?.code === 'NoAuth';
  if (!reply && !draft && !(closed && tab === 'acl')) {
    return null;
  }
  const tabs = reply ? TABS : closed ? (['data', 'acl'] as const) : (['data'] as const);
  return (
    <Tabs
      label={path}
      selected={tab}
      onSelect={(name: Tab) => navigate(urlOf('tree', path, { tab: name }), true)}
      tabs={tabs.map((name) => ({
        name,
        title: say(name),
        ...(name === 'children' && reply ? { count: reply.stat.numChildren } : {}),
      }))}
    >
      {tab === 'data' &&
        (draft ? (
          <Editing draft={draft} perms={reply?.perms} onEnd={onEnd} />
        ) : (
          <DataTab path={path} bytes={bytes} />
        ))}
      {tab === 'stat' && reply && <StatTab stat={reply.stat} />}
      {tab === 'children' && reply && (
        <ChildrenTab path={path} version={`${reply.stat.pzxid}`} total={reply.stat.numChildren} />
      )}
      {tab === 'acl' && (
        <AclTab path={path} version={aclOf(reply)} draft={acl} onChanged={onRead} />
      )}
    </Tabs>
  );
}
