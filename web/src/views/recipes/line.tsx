// Locks, read/write locks and elections: a line in which each waits for the one before.

import { childOf } from '../../format/path';
import { visibleName } from '../../format/text';
import { Cut, Facts, Sentence, useLabel, useScene, ZnodeLink } from './parts';
import { placesOf, type Standing, sideBySide, standings } from './shape';
import { say } from './texts';

export function LineDrawing() {
  const { picture } = useScene();
  const places = placesOf(picture.children);
  const others = picture.children.filter(({ name }) => !places.some((one) => one.name === name));
  const all = standings(places);
  return (
    <>
      <Summary all={all} />
      <Cut shown={picture.children.length} total={picture.total} />
      <Line path={picture.path} all={all} fence />
      {others.length > 0 && places.length > 0 && (
        <p class="hint recipe-note">
          {say('others', { names: others.map(({ name }) => visibleName(name)).join(', ') })}{' '}
          {say('without_number')}
        </p>
      )}
    </>
  );
}

/** A lock that is one ephemeral znode: its waiters are not visible. */
export function SimpleLock() {
  const { picture } = useScene();
  const { path, stat } = picture;
  return (
    <>
      <Sentence icon="lock">{say('lock_holds')}</Sentence>
      <ol class="line" aria-label={say('line_label')}>
        <li class="line-step">
          <div class="stand holds">
            <Facts path={path} stat={stat} fence />
          </div>
        </li>
      </ol>
    </>
  );
}

function Summary({ all }: { all: Standing[] }) {
  const { picture } = useScene();
  const holders = all.filter(({ holds }) => holds);
  const first = holders[0];
  const holder = useLabel(childOf(picture.path, first?.place.name ?? ''));
  const waiting = all.length - holders.length;
  const kind = picture.kind;
  if (!first) {
    return (
      <Sentence icon={kind === 'election' ? 'user' : 'unlock'}>
        {say(kind === 'election' ? 'election_none' : kind === 'rwlock' ? 'rw_free' : 'lock_free')}
      </Sentence>
    );
  }
  if (kind === 'rwlock') {
    return (
      <Sentence icon="lock">
        {first.place.role === 'reader'
          ? say('rw_reading', { count: holders.length, waiting })
          : say('rw_writing', { holder, waiting })}
      </Sentence>
    );
  }
  const name = kind === 'election' ? 'election' : 'lock';
  return (
    <Sentence icon={kind === 'election' ? 'user' : 'lock'}>
      {say(waiting > 0 ? `${name}_held` : `${name}_held_alone`, { holder, count: waiting })}
    </Sentence>
  );
}

interface LineProps {
  path: string;
  all: Standing[];
  /** Whether a place gives a fencing number. */
  fence?: boolean;
}

/** Readers that read together stand side by side. */
export function Line({ path, all, fence }: LineProps) {
  return all.length === 0 ? null : (
    <ol class="line" aria-label={say('line_label')}>
      {sideBySide(all).map((step) => (
        <li key={step[0]?.place.name} class={step[0]?.holds ? 'line-step first' : 'line-step'}>
          {step.map((one) => (
            <Stand key={one.place.name} path={path} standing={one} fence={fence} />
          ))}
        </li>
      ))}
    </ol>
  );
}

/** undefined: the text already shows that it waits, and for which znode. */
function roleOf({ place: { role }, holds, waitsFor }: Standing): string | undefined {
  switch (role) {
    case 'reader':
      return say(holds ? 'reads' : 'reader');
    case 'writer':
      return say(holds ? 'writes' : 'writer');
    default:
      if (holds) {
        return say(role === 'candidate' ? 'candidate_leads' : 'lock_holds');
      }
      return waitsFor ? undefined : say('waits');
  }
}

function Stand({
  path,
  standing,
  fence,
}: {
  path: string;
  standing: Standing;
  fence: boolean | undefined;
}) {
  const { place, holds, waitsFor } = standing;
  const own = childOf(path, place.name);
  const name = useLabel(own);
  const before = useLabel(childOf(path, waitsFor?.name ?? ''));
  const role = roleOf(standing);
  const named = name === visibleName(place.name);
  return (
    <div class={holds ? 'stand holds' : 'stand'}>
      <span class="stand-name">
        <strong>{named ? <ZnodeLink path={own} /> : <bdi>{name}</bdi>}</strong>
        {role && <span class={holds ? 'chip good' : 'chip'}>{role}</span>}
        {waitsFor && <span class="hint">{say('waits_for', { name: before })}</span>}
      </span>
      <Facts path={own} stat={place.stat} fence={fence} named={named} />
    </div>
  );
}
