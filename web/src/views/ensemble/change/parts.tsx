// What the dialogs of all changes have: fields, what the leader has judged, and the outcome.

import type { ComponentChildren } from 'preact';
import { useId } from 'preact/hooks';
import type { ApiError } from '../../../api/error';
import type { Ensemble, MembersChanged } from '../../../api/types';
import { visibleText } from '../../../format/text';
import { epochCounter } from '../../../format/zxid';
import { Icon } from '../../../ui/icon';
import { Failure } from '../../../ui/state';
import { listOf } from '../members';
import {
  type Fault,
  type Field,
  isDone,
  type Risk,
  risksOf,
  type State,
  votersIn,
  type Wish,
} from './model';
import { say } from './texts';

interface FieldProps {
  wish: Wish;
  name: Field;
  title: string;
  fault: Fault | undefined;
  /** It may not be changed now. */
  fixed: boolean;
  numeric?: boolean;
  /** It has the focus first. */
  first?: boolean;
  onInput: (text: string) => void;
}

export function TextField({
  wish,
  name,
  title,
  fault,
  fixed,
  numeric,
  first,
  onInput,
}: FieldProps) {
  const id = useId();
  return (
    <div>
      <label>
        {title}
        <input
          name={name}
          autofocus={first}
          autocomplete="off"
          spellcheck={false}
          readOnly={fixed}
          inputMode={numeric ? 'numeric' : undefined}
          value={wish[name]}
          aria-invalid={fault !== undefined}
          aria-describedby={fault ? id : undefined}
          onInput={(event) => onInput(event.currentTarget.value)}
        />
      </label>
      {fault && (
        <p id={id} class="wrong" role="alert">
          {say(fault)}
        </p>
      )}
    </div>
  );
}

const ICONS = { good: 'check', info: 'info', warn: 'warning', bad: 'warning' } as const;

function Risks({ risks }: { risks: Risk[] }) {
  return (
    <ul class="risks" aria-label={say('risks')}>
      {risks.map(({ level, text, values }) => (
        <li key={text} class={level}>
          <Icon name={ICONS[level]} />
          <span>{say(text, values)}</span>
        </li>
      ))}
    </ul>
  );
}

/** The figures that the leader has answered, before the change or after it. */
export function Figures({ verdict, done = false }: { verdict: MembersChanged; done?: boolean }) {
  const { tolerance, in_step: count, members } = verdict;
  const { before, after } = tolerance;
  const when = done ? 'now' : 'then';
  return (
    <dl class="verdict-facts">
      <div>
        <dt>{say('tolerance')}</dt>
        <dd>{say(`tolerance_${when}`, { before, after })}</dd>
      </div>
      <div>
        <dt>{say(`in_step_${when}`)}</dt>
        <dd>{say('in_step_value', { count, voters: votersIn(members) })}</dd>
      </div>
      <div>
        <dt>{say(`members_${when}`)}</dt>
        <dd>{listOf(members)}</dd>
      </div>
    </dl>
  );
}

interface VerdictProps {
  wish: Wish;
  verdict: MembersChanged;
  ensemble: Ensemble;
}

export function Verdict({ wish, verdict, ensemble }: VerdictProps) {
  return (
    <div class="verdict">
      <Risks risks={risksOf(wish, verdict, ensemble)} />
      <Figures verdict={verdict} />
    </div>
  );
}

/** A refusal that ends by itself is no error. */
export function NotYet({ error }: { error: ApiError }) {
  return (
    <div class="not-yet">
      <Icon name="clock" />
      <div>
        <strong role="status">{say('not_yet')}</strong>
        <p>{visibleText(error.message)}</p>
      </div>
    </div>
  );
}

function Alert({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="state failure" role="alert">
      <Icon name="warning" />
      <div>
        <strong>{title}</strong>
        {children}
      </div>
    </div>
  );
}

/** What a replica has answered, and that nothing has come of it. */
export function Refused({ error }: { error: ApiError }) {
  return (
    <div class="said">
      {error.code === 'ChangeRefused' ? (
        <Alert title={say('refused')}>
          <p>{visibleText(error.message)}</p>
        </Alert>
      ) : (
        <Failure error={error} />
      )}
      <p class="hint">{say('nothing_changed')}</p>
    </div>
  );
}

interface OutcomeProps {
  wish: Wish;
  state: Extract<State, { at: 'failed' | 'unknown' }>;
  ensemble: Ensemble;
}

export function Failed({ wish, state, ensemble }: OutcomeProps) {
  const { error } = state;
  if (state.at === 'unknown' || error.code !== 'BadVersion') {
    return <Refused error={error} />;
  }
  const now = error.problem.config_version ?? ensemble.config_version;
  return (
    <div class="said">
      <Alert
        title={say('failed_version', { now: epochCounter(now), seen: epochCounter(state.seen) })}
      >
        {isDone(wish, ensemble) && <p>{say('failed_version_done')}</p>}
      </Alert>
      <p class="hint">{say('nothing_changed')}</p>
    </div>
  );
}

export function Unknown({ wish, state, ensemble }: OutcomeProps) {
  if (state.at !== 'unknown') {
    return null;
  }
  const { config_version: now, seen_by: at } = ensemble;
  const values = {
    at,
    version: epochCounter(now),
    seen: epochCounter(state.verdict.previous),
  };
  return (
    <div class="said">
      <Alert title={say('unknown')}>
        <p>{visibleText(state.error.message)}</p>
      </Alert>
      <p role="status">{say(isDone(wish, ensemble) ? 'unknown_done' : 'unknown_not', values)}</p>
      <p class="hint">
        {say('unknown_how')} <code>zabra members</code>
      </p>
    </div>
  );
}
