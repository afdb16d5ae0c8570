// Groups, barriers, semaphores: the members, without an order.

import type { ChildEntry } from '../../api/types';
import { navigate, route, urlOf } from '../../app/router';
import { childOf } from '../../format/path';
import { visibleName } from '../../format/text';
import { Line } from './line';
import { Cut, Facts, Sentence, useScene, ZnodeLink } from './parts';
import { leasesOf, placesOf, standings } from './shape';
import { say } from './texts';

function Member({ path, entry: { stat } }: { path: string; entry: ChildEntry }) {
  const text = useScene().texts.value.get(path)?.text?.trim();
  return (
    <li class="member">
      <strong>
        <ZnodeLink path={path} />
      </strong>
      {text && (
        <span class="member-text">
          <bdi>{visibleName(text)}</bdi>
        </span>
      )}
      <Facts path={path} stat={stat} named />
    </li>
  );
}

function Members({ path, entries, title }: { path: string; entries: ChildEntry[]; title: string }) {
  return entries.length === 0 ? null : (
    <ul class="members" aria-label={title}>
      {entries.map((entry) => (
        <Member key={entry.name} path={childOf(path, entry.name)} entry={entry} />
      ))}
    </ul>
  );
}

export function GroupDrawing() {
  const { picture } = useScene();
  const { path, children, total } = picture;
  return (
    <>
      <Sentence icon="sessions">
        {total > 0 ? say('group_count', { count: total }) : say('group_none')}
      </Sentence>
      <Cut shown={children.length} total={total} />
      <Members path={path} entries={children} title={say('members')} />
    </>
  );
}

// ---- Barriers ----

/** One that is there or not; or one that opens when enough have come. */
export function BarrierDrawing() {
  const { picture } = useScene();
  const { path, children, inner } = picture;
  const ready = children.some(({ name }) => name === 'ready');
  if (!inner.members && !ready) {
    return <Sentence icon="lock">{say('barrier_up')}</Sentence>;
  }
  const { children: members = [], total: count = 0 } = inner.members ?? {};
  return (
    <>
      <Filling count={count} ready={ready} />
      <Cut shown={members.length} total={count} />
      <Members path={childOf(path, 'members')} entries={members} title={say('members')} />
    </>
  );
}

const OF_MAX = 1_000_000;

/** How many are needed is in no znode. */
function Filling({ count, ready }: { count: number; ready: boolean }) {
  const { query, path, view } = route.value;
  const of = Math.min(OF_MAX, Number.parseInt(query.get('of') ?? '', 10) || 0);
  const text = ready
    ? say(count > 0 ? 'barrier_open' : 'barrier_left', { count })
    : of > 0
      ? say('barrier_filling_of', { count, of })
      : say('barrier_filling', { count });
  const choose = (value: string) => {
    const { of: _, ...rest } = Object.fromEntries(query);
    navigate(urlOf(view, path, value ? { ...rest, of: value } : rest), true);
  };
  return (
    <>
      <Sentence icon={ready ? 'unlock' : 'lock'}>{text}</Sentence>
      {!ready && (
        <div class="bar">
          <label class="inline">
            {say('of')}
            <input
              type="number"
              min="1"
              max={OF_MAX}
              value={of || ''}
              onChange={(event) => choose(event.currentTarget.value)}
            />
          </label>
          {of > 0 ? (
            <progress max={of} value={Math.min(count, of)} aria-label={text} />
          ) : (
            <span class="hint">{say('of_hint')}</span>
          )}
        </div>
      )}
    </>
  );
}

// ---- Semaphores ----

export function SemaphoreDrawing() {
  const { picture } = useScene();
  const { path, children, inner } = picture;
  const flat = inner.leases === undefined; // Leases of libraries may stand in the directory itself.
  const folder = flat ? path : childOf(path, 'leases');
  const line = placesOf(inner.line?.children ?? []);
  const { held } = leasesOf(placesOf(inner.leases?.children ?? children), line);
  const waiting = inner.line?.total ?? 0;
  return (
    <>
      <Sentence icon={held.length > 0 ? 'lock' : 'unlock'}>
        {held.length === 0 && waiting === 0
          ? say('semaphore_none')
          : say('semaphore_count', { count: held.length, waiting })}
      </Sentence>
      <h3 class="recipe-part">{say('leases')}</h3>
      <Members
        path={folder}
        entries={held.map(({ name, stat }) => ({ name, ...(stat && { stat }) }))}
        title={say('leases')}
      />
      {line.length > 0 && (
        <>
          <h3 class="recipe-part">{say('line')}</h3>
          <Line
            path={childOf(path, 'line')}
            all={standings(line).map((one) => ({ ...one, holds: false }))}
          />
        </>
      )}
    </>
  );
}
