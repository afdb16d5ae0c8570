// A new znode below the one that is shown.

import { effect, type Signal, useSignal } from '@preact/signals';
import { useId, useRef } from 'preact/hooks';
import { ApiError } from '../../../api/error';
import { requestKey } from '../../../api/key';
import type { StatReply } from '../../../api/types';
import { socket, whoami } from '../../../app/cluster';
import { identity } from '../../../app/identity';
import { Waiting } from '../../../app/waiting';
import { whyNoWrites } from '../../../app/writes';
import { visibleName } from '../../../format/text';
import { Button } from '../../../ui/button';
import { Dialog } from '../../../ui/dialog';
import { toast } from '../../../ui/toast';
import { useShown } from '../../../ui/use_shown';
import { EDIT_FORMS, type Fault } from '../edit/convert';
import { say as sayEdit } from '../edit/texts';
import {
  type Field,
  fieldOf,
  type Kind,
  membersOf,
  pathOf,
  SECONDS_MAX,
  type Wish,
} from './creation';
import { chosenFile } from './file';
import { Said, sayLate } from './said';
import { say } from './texts';

interface Props {
  parent: string;
  onClose: () => void;
  onCreated: (path: string) => void;
}

interface Left {
  wish: Wish;
  key: string | undefined;
}

type Change = (part: Partial<Wish>) => void;

interface Refusal {
  field: Field;
  why: ApiError | Fault | 'no_file';
}

const KINDS: Kind[] = ['persistent', 'container', 'ttl'];

/** Left by Escape: it is there when this is opened again for the same znode, with the key of its request. */
const left = new Map<string, Left>();

let user: string | undefined;

effect(() => {
  const now = identity.value?.user;
  if (now === user) {
    return;
  }
  if (user !== undefined) {
    left.clear(); // The text of another user must not be shown.
  }
  for (const one of left.values()) {
    one.key = undefined; // The request would be another one's.
  }
  user = now;
});

function newWish(parent: string): Wish {
  return {
    parent,
    name: '',
    kind: 'persistent',
    sequential: false,
    seconds: '3600',
    acl: 'open',
    form: 'text',
    text: '',
    file: undefined,
  };
}

export function Create({ parent, onClose, onCreated }: Props) {
  const before = left.get(parent);
  const wish = useSignal<Wish>(before?.wish ?? newWish(parent));
  const refusal = useSignal<Refusal | undefined>(undefined);
  const busy = useSignal(false);
  const key = useSignal(before?.key); // Of a request whose outcome is unknown.
  const shown = useShown();
  const change: Change = (part) => {
    wish.value = { ...wish.value, ...part };
    refusal.value = undefined;
    key.value = undefined;
  };
  const whyNotNow = () => {
    if (busy.value) {
      return say('busy');
    }
    return wish.value.file === 'reading' ? say('reading') : whyNoWrites();
  };
  const submit = async (event: Event) => {
    event.preventDefault();
    if (whyNotNow() !== undefined) {
      return;
    }
    const members = membersOf(wish.peek());
    if (typeof members === 'string') {
      refusal.value = { field: 'data', why: members as Fault | 'no_file' };
      return;
    }
    busy.value = true;
    const sent = key.peek() ?? requestKey();
    key.value = sent;
    try {
      const { path } = await socket.write<StatReply>('create', {
        ...members,
        key: sent,
      });
      toast(say('created', { path: visibleName(path) }));
      if (shown.current || left.get(parent)?.key === sent) {
        left.delete(parent);
      }
      if (shown.current) {
        onCreated(path);
      }
    } catch (error) {
      const why = error as ApiError;
      if (!shown.current) {
        sayLate(pathOf(wish.peek()), why);
      }
      refusal.value = { field: fieldOf(why), why };
      key.value = why.outcome === 'unknown' ? key.peek() : undefined;
    }
    busy.value = false;
  };
  const leave = () => {
    const { name, text } = wish.peek();
    if (name === '' && text === '') {
      left.delete(parent);
    } else {
      left.set(parent, { wish: { ...wish.peek(), file: undefined }, key: key.peek() });
    }
    onClose();
  };
  const cancel = () => {
    left.delete(parent);
    onClose();
  };
  return (
    <Dialog title={say('create_below', { path: visibleName(parent) })} onClose={leave}>
      <form class="form" onSubmit={(event) => void submit(event)}>
        <NameField wish={wish.value} change={change} refusal={refusal.value} />
        <KindField wish={wish.value} change={change} />
        <DataField wish={wish.value} change={change} refusal={refusal.value} />
        <AclField wish={wish} change={change} refusal={refusal.value} />
        {refusal.value?.field === 'form' && refusal.value.why instanceof ApiError && (
          <Said error={refusal.value.why} right="create" />
        )}
        {busy.value && <Waiting />}
        <footer>
          <Button onClick={cancel}>{say('cancel')}</Button>
          <Button kind="primary" type="submit" reason={whyNotNow()}>
            {say('create')}
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}

interface FieldProps {
  wish: Wish;
  change: Change;
  refusal?: Refusal | undefined;
}

/** What is wrong with a field stands below it, and is said with it. */
function Wrong({ id, field, refusal }: { id: string; field: Field; refusal: Refusal | undefined }) {
  if (refusal?.field !== field) {
    return null;
  }
  const { why } = refusal;
  return (
    <p id={id} class="wrong" role="alert">
      {why instanceof ApiError ? wordsOf(why) : why === 'no_file' ? say('file_none') : sayEdit(why)}
    </p>
  );
}

function wordsOf(error: ApiError): string {
  if (error.code === 'NoAuth') {
    return `${say('no_create')}: ${error.message}`;
  }
  return `${error.code}: ${error.message}`;
}

function NameField({ wish, change, refusal }: FieldProps) {
  const id = useId();
  const path = pathOf(wish);
  const wrong = refusal?.field === 'name';
  return (
    <div>
      <label>
        {say(wish.sequential ? 'name_sequence' : 'name')}
        <input
          autofocus
          required={!wish.sequential}
          autocomplete="off"
          spellcheck={false}
          value={wish.name}
          aria-invalid={wrong}
          aria-describedby={`${id} ${id}-hint`}
          onInput={(event) => change({ name: event.currentTarget.value })}
        />
      </label>
      <Wrong id={id} field="name" refusal={refusal} />
      <p id={`${id}-hint`} class="hint">
        {wish.name === '' ? (
          say('name_hint')
        ) : (
          <bdi>
            {say('path', { path: visibleName(path) + (wish.sequential ? '0000000000' : '') })}
          </bdi>
        )}
      </p>
    </div>
  );
}

function KindField({ wish, change }: FieldProps) {
  const container = wish.kind === 'container';
  return (
    <fieldset>
      <legend>{say('kind')}</legend>
      {KINDS.map((kind) => (
        <label key={kind} class="check">
          <input
            type="radio"
            name="kind"
            checked={wish.kind === kind}
            onChange={() => change({ kind })}
          />
          {say(kind)}
        </label>
      ))}
      {wish.kind === 'ttl' && (
        <label class="inset">
          {say('ttl_seconds')}
          <input
            type="number"
            required
            min="0.001"
            step="any"
            max={SECONDS_MAX}
            value={wish.seconds}
            onInput={(event) => change({ seconds: event.currentTarget.value })}
          />
        </label>
      )}
      <label class="check unavailable">
        <input type="radio" name="kind" disabled />
        {say('ephemeral')}
      </label>
      <label class={container ? 'check unavailable' : 'check'}>
        <input
          type="checkbox"
          disabled={container}
          checked={wish.sequential && !container}
          onChange={(event) => change({ sequential: event.currentTarget.checked })}
        />
        {say(container ? 'sequential_no' : 'sequential')}
      </label>
    </fieldset>
  );
}

function DataField({ wish, change, refusal }: FieldProps) {
  const id = useId();
  const choices = useRef(0);
  const take = async (input: HTMLInputElement) => {
    choices.current += 1;
    const mine = choices.current;
    change({ file: 'reading' });
    const bytes = await chosenFile(input);
    if (mine === choices.current) {
      change({ file: bytes }); // No later choice has replaced this one.
    }
  };
  return (
    <div class="data-field">
      <label>
        {say('data_as')}
        <select
          value={wish.form}
          onChange={(event) => change({ form: event.currentTarget.value as Wish['form'] })}
        >
          {EDIT_FORMS.map((form) => (
            <option key={form} value={form}>
              {sayEdit(`edit_${form}`)}
            </option>
          ))}
          <option value="file">{say('file')}</option>
        </select>
      </label>
      {wish.form === 'file' ? (
        <input
          type="file"
          aria-label={say('file')}
          aria-describedby={id}
          onChange={(event) => void take(event.currentTarget)}
        />
      ) : (
        <textarea
          rows={4}
          spellcheck={false}
          aria-label={say('data')}
          aria-describedby={id}
          aria-invalid={refusal?.field === 'data'}
          value={wish.text}
          onInput={(event) => change({ text: event.currentTarget.value })}
        />
      )}
      <Wrong id={id} field="data" refusal={refusal} />
    </div>
  );
}

const ACLS = ['open', 'read', 'creator'] as const;

function AclField({
  wish,
  change,
  refusal,
}: {
  wish: Signal<Wish>;
  change: Change;
  refusal: Refusal | undefined;
}) {
  const id = useId();
  const known = whoami.value?.authenticated === true;
  return (
    <div>
      <label>
        {say('acl')}
        <select
          value={wish.value.acl}
          aria-describedby={id}
          onChange={(event) => change({ acl: event.currentTarget.value as Wish['acl'] })}
        >
          {ACLS.map((acl) => (
            <option key={acl} value={acl} disabled={acl === 'creator' && !known}>
              {say(acl === 'creator' && !known ? 'acl_creator_reason' : `acl_${acl}`)}
            </option>
          ))}
        </select>
      </label>
      <Wrong id={id} field="acl" refusal={refusal} />
    </div>
  );
}
