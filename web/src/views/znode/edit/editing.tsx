// Writing into a znode: what is typed, what others do meanwhile, and what becomes of saving it.

import { type Signal, useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { ApiError } from '../../../api/error';
import type { Perm } from '../../../api/types';
import { socket } from '../../../app/cluster';
import { byteSize } from '../../../format/bytes';
import { indentJson } from '../../../format/json';
import { visibleName } from '../../../format/text';
import { Button } from '../../../ui/button';
import { Dialog } from '../../../ui/dialog';
import { toast } from '../../../ui/toast';
import { chosenFile } from '../change/file';
import { reasonFor } from '../change/rights';
import { Said } from '../change/said';
import { Both, Meanwhile } from './conflict';
import { EDIT_FORMS, type EditForm, jsonFault } from './convert';
import type { Draft, Seen } from './draft';
import { EditorBox, useMerge } from './editor';
import type { Editor } from './editor_code';
import { say } from './texts';

const MAX = 1 << 20; // While the replica has not said its own limit.

interface Props {
  draft: Draft;
  /** What one may do with the znode; undefined: not known. */
  perms: Perm[] | undefined;
  /** It is over: what was saved, if anything was. */
  onEnd: (saved: Seen | undefined) => void;
}

/** What is known of the text without asking the editor at each key. */
interface Measure {
  size: number | undefined;
  fault: string | undefined;
}

function measure(draft: Draft): Measure {
  const mine = draft.mine();
  if (typeof mine !== 'string') {
    return { size: mine.length, fault: undefined };
  }
  const detail = mine === 'bad_json' ? jsonFault(draft.text()) : undefined;
  const fault = detail === undefined ? say(mine) : `${say(mine)} ${say('json_fault', { detail })}`;
  return { size: undefined, fault };
}

export function Editing({ draft, perms, onEnd }: Props) {
  const editor = useRef<Editor | undefined>(undefined);
  const asking = useSignal(false);
  const measured = useSignal<Measure>({ size: undefined, fault: undefined });
  const look = () => {
    measured.value = measure(draft);
  };
  useEffect(look, [draft.start.value]);
  useMerge(draft, () => editor.current);
  const reason = whyNotSave(draft, perms, measured.value);
  const save = async () => {
    if (whyNotSave(draft, perms, measure(draft)) !== undefined) {
      return;
    }
    const again = draft.theirs.peek() === 'gone';
    if (draft.merging.peek()) {
      draft.keepMine();
    }
    const saved = await draft.save();
    if (!saved) {
      return; // Or another one, which was asked for meanwhile, has ended it.
    }
    toast(again ? say('saved_again') : say('saved', { version: saved.stat.version }));
    if (draft.phase.peek() === 'ended') {
      onEnd(saved);
    }
  };
  const cancel = () => {
    if (draft.dirty.peek()) {
      asking.value = true;
    } else {
      onEnd(undefined);
    }
  };
  return (
    <>
      <Meanwhile draft={draft} onSave={() => void save()} />
      <Bar draft={draft} editor={editor} measured={measured}>
        <Button onClick={cancel}>{say(draft.dirty.value ? 'discard' : 'ended')}</Button>
        <Button kind="primary" reason={reason} onClick={() => void save()}>
          {say(labelOf(draft))}
        </Button>
      </Bar>
      <Trouble draft={draft} measured={measured.value} />
      <EditorBox
        draft={draft}
        onTyped={look}
        onSave={() => void save()}
        onOpen={(one) => {
          editor.current = one;
        }}
      />
      <Both draft={draft} />
      {asking.value && (
        <Discard
          path={draft.path}
          go={say('discard')}
          onStay={() => {
            asking.value = false;
          }}
          onGo={() => {
            draft.discard();
            onEnd(undefined);
          }}
        />
      )}
    </>
  );
}

function labelOf({ phase, merging, theirs }: Draft) {
  if (phase.value === 'saving') {
    return 'saving';
  }
  if (theirs.value === 'gone') {
    return 'create_again';
  }
  return merging.value ? 'save_merged' : 'save';
}

/** undefined: nothing speaks against it. */
function whyNotSave(
  draft: Draft,
  perms: Perm[] | undefined,
  { size, fault }: Measure,
): string | undefined {
  const theirs = draft.theirs.value;
  if (draft.phase.value === 'saving') {
    return say('saving');
  }
  if (draft.reading.value) {
    return say('reading');
  }
  if (theirs && theirs !== 'gone' && !draft.merging.value) {
    return say('conflict');
  }
  if (draft.merging.value && draft.choices.value > 0) {
    return say('choose_first', { count: draft.choices.value });
  }
  if (!draft.dirty.value && theirs !== 'gone') {
    return say('nothing_new');
  }
  if (size !== undefined && size > limit()) {
    return say('too_large');
  }
  return fault ?? reasonFor('write', theirs === 'gone' ? undefined : perms);
}

function whyNoFile(draft: Draft): string | undefined {
  if (draft.reading.value) {
    return say('reading');
  }
  return draft.merging.value ? say('not_merging') : undefined;
}

function limit(): number {
  return socket.hello.value?.limits.maxDataBytes ?? MAX;
}

interface BarProps {
  draft: Draft;
  editor: { current: Editor | undefined };
  measured: Signal<Measure>;
  children: preact.ComponentChildren;
}

function Bar({ draft, editor, measured, children }: BarProps) {
  const file = useRef<HTMLInputElement>(null);
  const { size } = measured.value;
  const large = size !== undefined && size > limit();
  const take = async (input: HTMLInputElement) => {
    draft.reading.value = true;
    const bytes = await chosenFile(input);
    draft.reading.value = false;
    if (bytes) {
      draft.replace(bytes);
    }
    input.value = '';
  };
  const format = () => {
    const text = editor.current?.text() ?? '';
    if (text.trim() !== '' && jsonFault(text) === undefined) {
      editor.current?.setText(indentJson(text));
    }
  };
  return (
    <div class="bar">
      <Forms draft={draft} />
      {draft.form.value === 'json' && (
        <Button reason={measured.value.fault} onClick={format}>
          {say('format')}
        </Button>
      )}
      <Button
        icon="upload"
        kind="quiet"
        label={say('view_file')}
        reason={whyNoFile(draft)}
        onClick={() => file.current?.click()}
      />
      <input
        ref={file}
        type="file"
        hidden
        aria-label={say('upload')}
        disabled={draft.merging.value || draft.reading.value}
        onChange={(event) => void take(event.currentTarget)}
      />
      {size !== undefined && (
        <span class={large ? 'hint bad' : 'hint'}>
          {say('size', { size: byteSize(size), max: byteSize(limit()) })}
        </span>
      )}
      <span class="bar-end">{children}</span>
    </div>
  );
}

function Forms({ draft }: { draft: Draft }) {
  const text = draft.allows('text');
  return (
    <>
      <select
        aria-label={say('form')}
        value={draft.form}
        disabled={draft.merging.value}
        onChange={(event) => {
          draft.setForm(event.currentTarget.value as EditForm);
          event.currentTarget.value = draft.form.peek();
        }}
      >
        {EDIT_FORMS.map((form) => (
          <option key={form} value={form} disabled={!text && (form === 'text' || form === 'json')}>
            {say(`edit_${form}`)}
          </option>
        ))}
      </select>
      {!text && <span class="hint">{say('no_text')}</span>}
    </>
  );
}

/** Why it was not saved, or would not be. */
function Trouble({ draft, measured }: { draft: Draft; measured: Measure }) {
  const problem = draft.problem.value;
  const fault = typeof problem === 'string' ? say(problem) : measured.fault;
  if (problem instanceof ApiError && draft.phase.value === 'editing') {
    return <Said error={problem} right="write" />;
  }
  return fault ? (
    <p class="banner resyncing" role="status">
      {fault}
    </p>
  ) : null;
}

interface DiscardProps {
  path: string;
  go: string;
  onStay: () => void;
  onGo: () => void;
}

/** Asked before what was typed goes. */
export function Discard({ path, go, onStay, onGo }: DiscardProps) {
  return (
    <Dialog title={say('discard_title')} onClose={onStay}>
      <div class="form">
        <p>{say('discard_text', { path: visibleName(path) })}</p>
        <footer>
          <Button onClick={onStay}>{say('stay')}</Button>
          <Button kind="danger" onClick={onGo}>
            {go}
          </Button>
        </footer>
      </div>
    </Dialog>
  );
}
