// One session: its client, what it owns, what it watches, and its end.

import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import type { ApiError } from '../../api/error';
import type { ListedSession, WatchList } from '../../api/types';
import { clientOf, ensemble, http, socket, whoami } from '../../app/cluster';
import { identity } from '../../app/identity';
import { urlOf } from '../../app/router';
import { Waiting } from '../../app/waiting';
import { whyNoWrites } from '../../app/writes';
import { visibleName } from '../../format/text';
import { duration, localTime, relativeTime } from '../../format/time';
import { Button } from '../../ui/button';
import { Copy } from '../../ui/copy';
import { Dialog } from '../../ui/dialog';
import { Empty, Failure, Loading } from '../../ui/state';
import { Table } from '../../ui/table';
import { toast } from '../../ui/toast';
import { useLive } from '../../ui/use_live';
import type { Listing } from './model';
import { Heard, Left } from './parts';
import { say } from './texts';

const LOOK_MS = 2_000;
const EPHEMERALS_MAX = 500; // Of one request, and shown.
const NAMED_MAX = 10; // Znodes that the question names.

interface Props {
  id: string;
  listing: Listing | undefined;
  error: ApiError | undefined;
  onChanged: () => void;
}

export function SessionView({ id, listing, error, onChanged }: Props) {
  const session = listing?.sessions.find((one) => one.session === id);
  return (
    <div class="page session">
      <h1 class="sr-only">{say('title')}</h1>
      <p>
        <a href={urlOf('sessions')}>← {say('all')}</a>
      </p>
      {!listing && (error ? <Failure error={error} onRetry={onChanged} /> : <Loading />)}
      {listing && !session && (
        <section class="panel">
          <Empty icon="search">{say('gone')}</Empty>
        </section>
      )}
      {listing && session && <Shown session={session} at={listing.at} onChanged={onChanged} />}
    </div>
  );
}

function useEphemerals(session: string) {
  return useLive(
    () => socket.read('ephemerals', { public: session, limit: EPHEMERALS_MAX }),
    LOOK_MS,
    [session, identity.value],
  );
}

function Shown({
  session,
  at,
  onChanged,
}: {
  session: ListedSession;
  at: number;
  onChanged: () => void;
}) {
  const asked = useSignal(false);
  const { live } = useEphemerals(session.session);
  const reason = whyNoWrites() ?? (whoami.value?.super ? undefined : say('close_right'));
  return (
    <>
      <section class="panel">
        <header>
          <h2 class="inline">
            {say('id')} <code>{session.session}</code> <Copy text={session.session} />
          </h2>
          <Button
            kind="danger"
            reason={reason}
            onClick={() => {
              asked.value = true;
            }}
          >
            {say('close')}
          </Button>
        </header>
        <Facts session={session} at={at} />
      </section>
      <Ephemerals {...live.value} />
      <Watches session={session} />
      {asked.value && (
        <Close
          session={session}
          paths={live.value.value?.ephemerals ?? []}
          onEnd={() => {
            asked.value = false;
            onChanged();
          }}
        />
      )}
    </>
  );
}

function Fact({ title, children }: { title: string; children: ComponentChildren }) {
  return (
    <div class="fact">
      <dt>{title}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function Facts({ session, at }: { session: ListedSession; at: number }) {
  const { opened_ms: opened, timeout_ms: timeout, attached_at: attached, address } = session;
  return (
    <dl class="facts session-facts">
      <Fact title={say('left')}>
        <Left session={session} at={at} />
      </Fact>
      <Fact title={say('heard')}>
        <Heard session={session} at={at} />
      </Fact>
      <Fact title={say('timeout')}>{duration(timeout)}</Fact>
      <Fact title={say('attached')}>
        {attached ? say('at', { id: attached }) : say('not_attached')}
      </Fact>
      <Fact title={say('address')}>
        <code>{address}</code>
      </Fact>
      <Fact title={say('identity')}>
        {session.identity ? <bdi>{visibleName(session.identity)}</bdi> : '—'}
      </Fact>
      <Fact title={say('opened')}>
        <time dateTime={new Date(opened).toISOString()} title={localTime(opened)}>
          {relativeTime(opened)}
        </time>
      </Fact>
    </dl>
  );
}

export function PathLink({ path }: { path: string }) {
  return (
    <a href={urlOf('tree', path)}>
      <bdi>{visibleName(path)}</bdi>
    </a>
  );
}

function Ephemerals({
  value,
  error,
}: {
  value?: { ephemerals: string[]; more: boolean };
  error?: ApiError;
}) {
  return (
    <section class="panel" aria-labelledby="ephemerals">
      <header>
        <h2 id="ephemerals">{say('ephemerals')}</h2>
        {value && <span class="count">{value.ephemerals.length}</span>}
      </header>
      {error && <Failure error={error} />}
      {!value && !error && <Loading />}
      {value?.ephemerals.length === 0 && <p class="hint panel-note">{say('ephemerals_none')}</p>}
      <ul class="session-paths">
        {value?.ephemerals.map((path) => (
          <li key={path}>
            <PathLink path={path} />
          </li>
        ))}
      </ul>
      {value?.more && <p class="hint panel-note">{say('truncated')}</p>}
    </section>
  );
}

/** Known to the replica alone that its client is connected to, so that one is asked. */
function Watches({ session }: { session: ListedSession }) {
  const { session: id, attached_at: attached, heard_at: heard } = session;
  const here = socket.hello.value?.server ?? 0;
  const wanted = attached ?? heard ?? here;
  const client = clientOf(wanted);
  const at = wanted === here || !client ? here : wanted;
  const { live } = useLive(
    () => http.json<WatchList>('/watches/v1', { public: id }, at === here ? undefined : client),
    LOOK_MS,
    [id, at, identity.value, ensemble.value?.leader],
  );
  const { value, error } = live.value;
  const note = at === wanted ? (attached ? 'watches_at' : 'watches_here') : 'watches_elsewhere';
  return (
    <section class="panel" aria-labelledby="watches">
      <header>
        <h2 id="watches">{say('watches')}</h2>
        {value?.watches && <span class="count">{value.watches.length}</span>}
      </header>
      <p class="hint panel-note">{say(note, { id: at, at: wanted })}</p>
      {error && <Failure error={error} />}
      {!value && !error && <Loading />}
      {value?.watches?.length === 0 && <p class="hint panel-note">{say('watches_none')}</p>}
      {value?.watches && value.watches.length > 0 && <WatchRows watches={value.watches} />}
      {value?.truncated && <p class="hint panel-note">{say('truncated')}</p>}
    </section>
  );
}

function WatchRows({ watches }: { watches: NonNullable<WatchList['watches']> }) {
  return (
    <Table
      caption={say('watches')}
      rows={watches.map((watch, at) => ({ ...watch, at }))}
      keyOf={({ at }) => at}
      columns={[
        { name: 'path', title: say('path'), cell: ({ path }) => <PathLink path={path} /> },
        { name: 'kind', title: say('kind'), cell: ({ kind }) => say(`kind_${kind}`) },
        { name: 'over', title: say('over'), cell: ({ over }) => say(`over_${over}`) },
      ]}
    />
  );
}

/** It cannot be taken back, so what goes with it is named. */
function Close({
  session: { session: id, ephemerals },
  paths,
  onEnd,
}: {
  session: ListedSession;
  paths: string[];
  onEnd: () => void;
}) {
  const busy = useSignal(false);
  const close = async () => {
    if (busy.peek()) {
      return; // The second request would find no session.
    }
    busy.value = true;
    try {
      await socket.write('kill', { public: id });
      toast(say('closed', { id }));
    } catch (error) {
      const { message, outcome } = error as ApiError;
      const key = outcome === 'unknown' ? 'close_outcome' : 'close_failed';
      toast(say(key, { id, detail: message }), true);
    }
    onEnd();
  };
  const named = paths.slice(0, NAMED_MAX);
  return (
    <Dialog title={say('close_title', { id })} onClose={onEnd}>
      <div class="form">
        <p>{say('close_question')}</p>
        {ephemerals === 0 ? (
          <p>{say('close_none')}</p>
        ) : (
          <div>
            <strong>{say('close_what', { count: ephemerals })}</strong>
            <ul class="session-paths plain">
              {named.map((path) => (
                <li key={path}>
                  <bdi>{visibleName(path)}</bdi>
                </li>
              ))}
              {ephemerals > named.length && <li>…</li>}
            </ul>
          </div>
        )}
        {busy.value && <Waiting />}
        <footer>
          <Button onClick={onEnd}>{say('cancel')}</Button>
          <Button
            kind="danger"
            reason={busy.value ? say('close_busy') : whyNoWrites()}
            onClick={() => void close()}
          >
            {say('close')}
          </Button>
        </footer>
      </div>
    </Dialog>
  );
}
