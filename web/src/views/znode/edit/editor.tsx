// The editor on the page: CodeMirror in a shadow root, with what is typed into it known to the draft.

import { useSignalEffect } from '@preact/signals';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { Failure, Loading } from '../../../ui/state';
import { lineEnd, textOf } from './convert';
import type { Draft, Start } from './draft';
import type { Editor } from './editor_code';
import { say } from './texts';

type Code = typeof import('./editor_code');

/** On its way as soon as a znode is shown: later its replica may be gone. */
let code: Promise<Code | undefined> = load();

function load(): Promise<Code | undefined> {
  return import('./editor_code').catch(() => undefined);
}

/** The state of closed editors: a user that returns from another tab finds the cursor and the undo history. */
const kept = new WeakMap<Start, ReturnType<Editor['stop']>>();

interface Props {
  draft: Draft;
  /** The editor that is shown; undefined before and after. */
  onOpen: (editor: Editor | undefined) => void;
  /** A little after each change. */
  onTyped: () => void;
  onSave: () => void;
}

const TYPED_MS = 250;

export function EditorBox({ draft, onOpen, onTyped, onSave }: Props) {
  const host = useRef<HTMLDivElement>(null);
  const [loaded, setLoaded] = useState<Code | 'failed' | undefined>(undefined);
  const fetch = () =>
    void code.then((found) => {
      setLoaded(found ?? 'failed');
    });
  // The focus is here before the next key is, once the code has come.
  useLayoutEffect(fetch, []);
  const start = draft.start.value;
  useLayoutEffect(() => {
    if (!host.current || !loaded || loaded === 'failed') {
      return;
    }
    return show(host.current, loaded, { draft, onOpen, onTyped, onSave });
  }, [loaded, start]);
  return (
    <>
      {loaded === undefined && <Loading />}
      {loaded === 'failed' && (
        <Failure
          error={new Error(say('editor_failed'))}
          onRetry={() => {
            code = load();
            fetch();
          }}
        />
      )}
      <div ref={host} class="editor" />
    </>
  );
}

function show(host: HTMLElement, loaded: Code, props: Props): () => void {
  const { draft, onOpen, onTyped, onSave } = props;
  const root = host.shadowRoot ?? host.attachShadow({ mode: 'open' });
  const start = draft.start.peek();
  const form = draft.form.peek();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const editor = loaded.openEditor({
    root,
    parent: root as unknown as HTMLElement,
    form,
    text: start.text,
    kept: kept.get(start),
    grown: draft.grown(),
    lineEnd: lineEnd(start.text),
    label: say('editor', { form: say(`edit_${form}`) }),
    phrases: phrases(),
    onSave,
    onChange: (touched) => {
      draft.touched.value = touched;
      clearTimeout(timer);
      timer = setTimeout(onTyped, TYPED_MS);
    },
    onChoices: (left) => {
      draft.choices.value = left;
    },
  });
  draft.edits(editor.text, editor.grown);
  onOpen(editor);
  editor.focus();
  return () => {
    clearTimeout(timer);
    const [text, grown] = [editor.text(), editor.grown()];
    if (draft.start.peek() === start) {
      draft.edits(
        () => text,
        () => grown,
      );
    }
    onOpen(undefined);
    kept.set(start, editor.stop());
  };
}

/** Merges with theirs, as long as one is merging. */
export function useMerge(draft: Draft, editor: () => Editor | undefined): void {
  useSignalEffect(() => {
    const theirs = draft.theirs.value;
    const form = draft.form.peek();
    const text =
      draft.merging.value && theirs && theirs !== 'gone' ? textOf(form, theirs.bytes) : undefined;
    if (text === undefined) {
      editor()?.endMerge();
    } else {
      editor()?.merge(draft.base.peek(), textOf(form, draft.origin()), text);
    }
  });
}

/** What CodeMirror says, by what it says in English. */
function phrases(): Record<string, string> {
  return {
    accept: say('merge_mine'),
    reject: say('merge_theirs'),
    Find: say('find'),
    Replace: say('replace_with'),
    next: say('find_next'),
    previous: say('find_previous'),
    all: say('find_all'),
    'match case': say('find_case'),
    regexp: say('find_regexp'),
    'by word': say('find_word'),
    replace: say('replace'),
    'replace all': say('replace_all'),
    close: say('find_close'),
    'current match': say('find_current'),
    'replaced match on line $': say('find_replaced'),
    'replaced $ matches': say('find_replaced_all'),
    'on line': say('find_on_line'),
  };
}
