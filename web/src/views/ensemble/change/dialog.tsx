// One change of the members: what it is, what the leader says of it, and only then the change itself.

import { type Signal, useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useMemo, useRef } from 'preact/hooks';
import type { Ensemble, MembersChanged, WaitingReplica } from '../../../api/types';
import { http, ensemble as known, lookSoon, socket, whoami } from '../../../app/cluster';
import { Waiting } from '../../../app/waiting';
import { whyNoWrites } from '../../../app/writes';
import { epochCounter } from '../../../format/zxid';
import { Button } from '../../../ui/button';
import { Dialog } from '../../../ui/dialog';
import { Icon } from '../../../ui/icon';
import { toast } from '../../../ui/toast';
import { useShown } from '../../../ui/use_shown';
import {
  type Action,
  type Fault,
  type Field,
  faultsOf,
  hasFields,
  idOf,
  isGrave,
  MemberChange,
  NO_TEXTS,
  newWish,
  passes,
  type State,
  textsOf,
  type Wish,
} from './model';
import { Failed, Figures, NotYet, Refused, TextField, Unknown, Verdict } from './parts';
import { say } from './texts';

const AGAIN_MS = 1_000; // Between two questions to the leader, while a refusal may end by itself.
const ANSWER_MS = 10_000; // Of a change, while the replica has not said its own limit,
const LATE_MS = 3_000; // and how much later it is taken for lost.

/** What is to be changed; `waiting`: the replica that `add` begins with. */
export interface What {
  action: Action;
  id?: number;
  waiting?: WaitingReplica;
}

interface Props {
  what: What;
  onClose: () => void;
}

/** What the button of the change says, and a message that comes late. */
function wordsOf({ action, id, other }: Wish): string {
  return say(`do_${action}`, { id: action === 'add' ? idOf(other) || '' : id });
}

function answerMs(): number {
  return (socket.hello.peek()?.limits?.requestTimeout ?? ANSWER_MS) + LATE_MS;
}

/** A change, and the message that shows its outcome when the dialog is gone. */
function useChange(wish: Signal<Wish>) {
  const change = useMemo(() => new MemberChange(http, answerMs), []);
  const shown = useShown();
  const run = async () => {
    await change.run(wish.peek());
    lookSoon();
    if (!shown.current) {
      sayLate(wordsOf(wish.peek()), change.state.peek());
    }
  };
  return { change, run };
}

function sayLate(what: string, state: State): void {
  if (state.at === 'done') {
    toast(say('late_done', { what }));
  } else if (state.at === 'failed' || state.at === 'unknown') {
    toast(say(`late_${state.at}`, { what, detail: state.error.message }), true);
  }
}

export function ChangeDialog({ what, onClose }: Props) {
  const { action, id = 0 } = what;
  return (
    <Dialog title={say(`title_${action}`, { id })} onClose={onClose}>
      {action === 'replace' ? (
        <Replace id={id} onClose={onClose} />
      ) : (
        <Step begin={() => beginOf(what)} onClose={onClose} />
      )}
    </Dialog>
  );
}

function beginOf({ action, id = 0, waiting }: What): Wish {
  const member = known.peek()?.members.find((one) => one.id === id);
  const wish = newWish(action, id, member ? textsOf(member) : NO_TEXTS);
  return waiting ? { ...wish, ...given(waiting) } : wish;
}

function given({ id, peer = '', client = '', zone = '' }: WaitingReplica): Partial<Wish> {
  return { other: String(id), peer, client, zone };
}

// ---- One request ----

interface StepProps {
  begin: () => Wish;
  onClose: () => void;
  onDone?: (wish: Wish) => void;
  /** Another change follows this one, instead of its outcome. */
  goesOn?: boolean;
  /** Above all else. */
  children?: ComponentChildren;
  /** What is missing before it can be judged. */
  lacks?: string | undefined;
}

function Step({ begin, onClose, onDone, goesOn = false, children, lacks }: StepProps) {
  const wish = useSignal(useMemo(begin, []));
  const faults = useSignal<Partial<Record<Field, Fault>>>({});
  const form = useRef<HTMLFormElement>(null);
  const { change, run } = useChange(wish);
  const all = known.value;
  const state = change.state.value;
  const judge = () => {
    faults.value = faultsOf(wish.peek());
    const [first] = Object.keys(faults.peek());
    if (first) {
      form.current?.querySelector<HTMLInputElement>(`[name=${first}]`)?.focus();
    } else {
      void change.judge(wish.peek());
    }
  };
  const set = (part: Partial<Wish>) => {
    wish.value = { ...wish.peek(), ...part };
    faults.value = {};
    change.reopen();
  };
  useEffect(() => {
    if (!hasFields(wish.peek()) && lacks === undefined) {
      judge();
    }
  }, []);
  useEffect(() => {
    if (!passes(state)) {
      return undefined;
    }
    const timer = setTimeout(() => void change.judge(wish.peek(), true), AGAIN_MS);
    return () => clearTimeout(timer);
  }, [state]);
  useEffect(() => {
    if (state.at === 'done') {
      onDone?.(wish.peek());
    }
  }, [state]);
  if (!all) {
    return null;
  }
  if (state.at === 'done') {
    return goesOn ? null : <Done wish={wish.value} verdict={state.verdict} onClose={onClose} />;
  }
  return (
    <form
      ref={form}
      class="form change"
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        if (state.at !== 'asking' && state.at !== 'sent' && state.at !== 'unknown') {
          judge();
        }
      }}
    >
      {children}
      <Fields wish={wish.value} faults={faults.value} state={state} last={!goesOn} onChange={set} />
      <Said wish={wish.value} state={state} ensemble={all} />
      <Consent wish={wish.value} state={state} onChange={set} onJudge={judge} />
      <Ask
        wish={wish.value}
        state={state}
        ensemble={all}
        lacks={lacks}
        onRun={() => void run()}
        onJudge={judge}
        onClose={onClose}
      />
    </form>
  );
}

interface FieldsProps {
  wish: Wish;
  faults: Partial<Record<Field, Fault>>;
  state: State;
  /** No other change follows. */
  last: boolean;
  onChange: (part: Partial<Wish>) => void;
}

function Fields({ wish, faults, state, last, onChange }: FieldsProps) {
  if (!hasFields(wish)) {
    return null;
  }
  const adds = wish.action === 'add';
  const fixed = state.at === 'sent' || state.at === 'unknown';
  const field = (name: Field, title: string) => (
    <TextField
      wish={wish}
      name={name}
      title={title}
      fault={faults[name]}
      fixed={fixed}
      numeric={name === 'other'}
      first={last && name === (adds ? 'other' : 'peer')}
      onInput={(text) => onChange({ [name]: text.trim() })}
    />
  );
  return (
    <>
      <p class="hint">{say(adds ? 'add_hint' : 'move_hint')}</p>
      {adds && field('other', say('id'))}
      {field('peer', say('peer'))}
      {field('client', say('client'))}
      {field('zone', say('zone'))}
      {adds && last && (
        <label class="check">
          <input
            type="checkbox"
            disabled={fixed}
            checked={wish.autoPromote}
            onChange={(event) => onChange({ autoPromote: event.currentTarget.checked })}
          />
          {say('auto_promote')}
        </label>
      )}
    </>
  );
}

/** What the leader has said, or what has become of the change. */
function Said({ wish, state, ensemble }: { wish: Wish; state: State; ensemble: Ensemble }) {
  switch (state.at) {
    case 'asking':
      return (
        <p class="asking" role="status">
          <span class="spinner" aria-hidden="true" />
          {say('asking')}
        </p>
      );
    case 'judged':
    case 'sent':
      return (
        <>
          <div role="status">
            <Verdict wish={wish} verdict={state.verdict} ensemble={ensemble} />
          </div>
          {state.at === 'sent' && <Waiting />}
        </>
      );
    case 'refused':
    case 'failed':
      if (passes(state)) {
        return <NotYet error={state.error} />;
      }
      return state.at === 'refused' ? (
        <Refused error={state.error} />
      ) : (
        <Failed wish={wish} state={state} ensemble={ensemble} />
      );
    case 'unknown':
      return <Unknown wish={wish} state={state} ensemble={ensemble} />;
    default:
      return null;
  }
}

interface ConsentProps {
  wish: Wish;
  state: State;
  onChange: (part: Partial<Wish>) => void;
  onJudge: () => void;
}

/** Asked for only where the leader wants it. */
function Consent({ wish, state, onChange, onJudge }: ConsentProps) {
  const wanted = state.at === 'refused' && state.error.problem.reason === 'NoTolerance';
  if (!wanted && !wish.force) {
    return null;
  }
  return (
    <label class="check consent">
      <input
        type="checkbox"
        disabled={state.at === 'sent' || state.at === 'unknown'}
        checked={wish.force}
        onChange={(event) => {
          onChange({ force: event.currentTarget.checked });
          onJudge();
        }}
      />
      {say('force')}
    </label>
  );
}

interface AskProps {
  wish: Wish;
  state: State;
  ensemble: Ensemble;
  lacks: string | undefined;
  onRun: () => void;
  onJudge: () => void;
  onClose: () => void;
}

/** Why the change cannot be sent now. */
function whyNot({ state, lacks }: AskProps, typed: string | undefined): string | undefined {
  if (whoami.value && !whoami.value.super) {
    return say('only_super');
  }
  if (state.at === 'asking' || state.at === 'sent') {
    return say(state.at);
  }
  if (state.at !== 'judged' && state.at !== 'unknown') {
    return lacks ?? say('check_first');
  }
  return typed ?? whyNoWrites();
}

function Ask(props: AskProps) {
  const { wish, state, ensemble, onRun, onJudge, onClose } = props;
  const typed = useSignal('');
  const id = String(wish.id);
  const grave = isGrave(wish, ensemble) && state.at === 'judged';
  const missing = grave && typed.value.trim() !== id ? say('confirm', { id }) : undefined;
  const reason = whyNot(props, missing);
  const again = state.at === 'refused' || state.at === 'failed';
  const gentle = wish.action === 'add' || wish.action === 'promote' || wish.action === 'move';
  return (
    <>
      {grave && (
        <label>
          {say('confirm', { id })}
          <input
            inputMode="numeric"
            autocomplete="off"
            value={typed}
            onInput={(event) => {
              typed.value = event.currentTarget.value;
            }}
            onKeyDown={(event) => {
              if (event.key === 'Enter') {
                event.preventDefault(); // Not what the form does: it asks the leader.
                if (reason === undefined) {
                  onRun();
                }
              }
            }}
          />
        </label>
      )}
      <footer>
        <Button onClick={onClose}>{say(state.at === 'unknown' ? 'close' : 'cancel')}</Button>
        {again && <Button onClick={onJudge}>{say('again')}</Button>}
        {state.at === 'open' && hasFields(wish) && (
          <Button kind="primary" type="submit">
            {say('check')}
          </Button>
        )}
        <Button
          kind={gentle ? (reason === undefined ? 'primary' : 'plain') : 'danger'}
          reason={reason}
          onClick={onRun}
        >
          {state.at === 'unknown' ? say('repeat') : wordsOf(wish)}
        </Button>
      </footer>
    </>
  );
}

interface DoneProps {
  wish: Wish;
  verdict: MembersChanged;
  onClose: () => void;
}

function nextOf({ action, id, other, autoPromote }: Wish): string | undefined {
  switch (action) {
    case 'add':
      return say(autoPromote ? 'next_auto' : 'next_add', { id: idOf(other) });
    case 'demote':
      return say('next_demote', { id });
    case 'move':
      return say('next_move', { id });
    case 'remove':
    case 'replace':
      return say('next_remove', { id });
    default:
      return undefined;
  }
}

function Done({ wish, verdict, onClose }: DoneProps) {
  const footer = useRef<HTMLElement>(null);
  useEffect(() => footer.current?.querySelector('button')?.focus(), []);
  const next = nextOf(wish);
  return (
    <div class="form change">
      <p class="change-done" role="status">
        <Icon name="check" />
        <strong>{say('done', { version: epochCounter(verdict.version ?? '0x0') })}</strong>
      </p>
      <Figures verdict={verdict} done />
      {next && <p>{next}</p>}
      <footer ref={footer}>
        <Button kind="primary" onClick={onClose}>
          {say('close')}
        </Button>
      </footer>
    </div>
  );
}

// ---- Replacing: two requests ----

const NEW = 'new';

/** Adds the newcomer if it is no member yet, and lets it take the place once it is in step. */
function Replace({ id, onClose }: { id: number; onClose: () => void }) {
  const chosen = useSignal('');
  const added = useSignal('');
  const over = useSignal(false);
  const all = known.value;
  const other = chosen.value;
  const isMember = other === added.value || all?.members.some((one) => String(one.id) === other);
  const waiting = all?.waiting.find((one) => String(one.id) === other);
  if (!all) {
    return null;
  }
  return (
    <div class="form">
      {!over.value && <Choice all={all} chosen={chosen} />}
      {other === '' || isMember ? (
        <Step
          key={`replace ${other}`}
          begin={() => ({ ...beginOf({ action: 'replace', id }), other })}
          lacks={other === '' ? say('choose_first') : undefined}
          onDone={() => {
            over.value = true;
          }}
          onClose={onClose}
        >
          {other !== '' && (
            <p class="hint">{say('replace_step_2', { id, other: Number(other) })}</p>
          )}
        </Step>
      ) : (
        <Step
          key={`add ${other}`}
          begin={() => beginOf({ action: 'add', ...(waiting ? { waiting } : {}) })}
          goesOn
          onDone={(wish) => {
            added.value = String(idOf(wish.other));
            chosen.value = added.value;
          }}
          onClose={onClose}
        >
          <p class="hint">{say('replace_step_1')}</p>
        </Step>
      )}
    </div>
  );
}

/** Observers, replicas that wait, and any other one. */
function Choice({ all, chosen }: { all: Ensemble; chosen: Signal<string> }) {
  const observers = all.members.filter(({ role }) => role === 'observer');
  const waiting = all.waiting.filter((one) => !all.members.some((member) => member.id === one.id));
  const listed = [...observers, ...waiting].some((one) => String(one.id) === chosen.value);
  return (
    <label>
      {say('other')}
      <select
        autofocus
        value={chosen}
        onChange={(event) => {
          chosen.value = event.currentTarget.value;
        }}
      >
        <option value="">{say('other_choose')}</option>
        {observers.map((one) => (
          <option key={one.id} value={String(one.id)}>
            {say('other_observer', { id: one.id })}
          </option>
        ))}
        {waiting.map((one) => (
          <option key={one.id} value={String(one.id)}>
            {say('other_waits', { id: one.id })}
          </option>
        ))}
        {idOf(chosen.value) > 0 && !listed && (
          <option value={chosen.value}>{say('other_observer', { id: idOf(chosen.value) })}</option>
        )}
        <option value={NEW}>{say('other_new')}</option>
      </select>
    </label>
  );
}
