// CodeMirror, which is large: a chunk of its own, loaded by editor.tsx. It lives in a shadow root,
// where it brings its styles as style sheets and not as elements, which the policy forbids.

import {
  defaultKeymap,
  history,
  historyKeymap,
  invertedEffects,
  isolateHistory,
} from '@codemirror/commands';
import { json } from '@codemirror/lang-json';
import { bracketMatching, HighlightStyle, syntaxHighlighting } from '@codemirror/language';
import {
  type Chunk,
  getChunks,
  getOriginalDoc,
  goToNextChunk,
  goToPreviousChunk,
  originalDocChangeEffect,
  unifiedMergeView,
} from '@codemirror/merge';
import { search, searchKeymap } from '@codemirror/search';
import {
  ChangeSet,
  type ChangeSpec,
  Compartment,
  EditorState,
  type Extension,
  StateEffect,
  StateField,
  Text,
} from '@codemirror/state';
import {
  drawSelection,
  EditorView,
  highlightActiveLine,
  highlightSpecialChars,
  keymap,
  lineNumbers,
} from '@codemirror/view';
import { tags } from '@lezer/highlight';
import { HIDDEN, isFewHidden } from '../../../format/text';
import { type EditForm, encode } from './convert';
import type { Grown, Seen } from './draft';
import { merge3 } from './merge';

export interface EditorOptions {
  root: ShadowRoot;
  parent: HTMLElement;
  form: EditForm;
  text: string;
  /** Where an earlier one of the same text has ended. */
  kept: EditorState | undefined;
  /** What the text has grown from, as an earlier editor has left it. */
  grown: Grown | undefined;
  lineEnd: '\n' | '\r\n';
  label: string;
  phrases: Record<string, string>;
  onChange(touched: boolean): void;
  /** While one is merging: how many places want a choice. */
  onChoices(left: number): void;
  onSave(): void;
}

export interface Editor {
  text(): string;
  /** In place of all, as if it were typed. */
  setText(text: string): void;
  /** Takes what they alone have changed, as if it were typed, and marks what both have. `origin`: what mine
   * grew from since `base`; undefined: no text, so that each difference is to be chosen. */
  merge(base: Seen, origin: string | undefined, theirs: string): void;
  /** What the text grew from; it goes back, too, when a merge is undone. */
  grown(): Grown | undefined;
  /** No marks any more. */
  endMerge(): void;
  focus(): void;
  /** Ends it; what is returned begins another one. */
  stop(): EditorState;
}

const DIFF_MS = 1_000;
const LINE_MAX = 20_000; // Characters; longer lines are neither wrapped nor coloured: it takes seconds.

const colours = HighlightStyle.define([
  { tag: tags.propertyName, color: 'var(--accent)' },
  { tag: tags.string, color: 'var(--good)' },
  { tag: [tags.number, tags.bool, tags.null], color: 'var(--warn)' },
  { tag: tags.invalid, color: 'var(--bad)' },
]);

const look = EditorView.theme({
  '&': { height: '100%', color: 'var(--text)', backgroundColor: 'var(--page)' },
  '&.cm-focused': { outline: 'none' },
  '.cm-scroller': { fontFamily: 'var(--mono)', fontSize: '12.5px', lineHeight: '20px' },
  '.cm-content': { caretColor: 'var(--text)', padding: '12px 0' },
  '.cm-cursor': { borderLeftColor: 'var(--text)' },
  '.cm-gutters': {
    color: 'var(--muted)',
    backgroundColor: 'var(--page)',
    borderRight: '1px solid var(--line)',
  },
  '.cm-activeLine': { backgroundColor: 'transparent' },
  '&.cm-focused .cm-activeLine': {
    backgroundColor: 'color-mix(in srgb, var(--hover) 55%, transparent)',
  },
  '.cm-selectionBackground, &.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground':
    { backgroundColor: 'var(--selected)' },
  '.cm-specialChar': { color: 'var(--bad)' },
  '.cm-panels': {
    color: 'var(--text)',
    backgroundColor: 'var(--raised)',
    borderColor: 'var(--line)',
  },
  '.cm-panel.cm-search': { padding: '8px 12px', font: '13px var(--font)' },
  '.cm-panel.cm-search label': {
    display: 'inline-flex',
    alignItems: 'center',
    gap: '5px',
    marginInlineEnd: '10px',
    fontSize: '13px',
  },
  '.cm-panel.cm-search [name=close]': {
    top: '6px',
    right: '8px',
    padding: '2px 8px',
    color: 'var(--muted)',
    fontSize: '18px',
    cursor: 'pointer',
  },
  '.cm-panel.cm-search :focus-visible': {
    outline: '2px solid var(--accent)',
    outlineOffset: '1px',
  },
  '.cm-textfield, .cm-button': {
    minHeight: '28px',
    padding: '2px 9px',
    borderRadius: '6px',
    font: '13px var(--font)',
  },
  '.cm-textfield': {
    color: 'var(--text)',
    backgroundColor: 'var(--surface)',
    border: '1px solid var(--line-strong)',
  },
  '.cm-button': {
    color: 'var(--text)',
    backgroundColor: 'var(--surface)',
    backgroundImage: 'none',
    border: '1px solid var(--line-strong)',
  },
  '.cm-searchMatch': { backgroundColor: 'var(--warn-surface)' },
  '.cm-deletedChunk': { backgroundColor: 'var(--bad-surface)', paddingLeft: '6px' },
  '.cm-changedLine': { backgroundColor: 'var(--good-surface)' },
  '.cm-deletedLine del': { color: 'var(--bad)', textDecoration: 'none' },
  '.cm-changedLine .cm-changedText, .cm-deletedChunk .cm-deletedText': {
    background: 'none',
    textDecoration: 'underline',
    textDecorationThickness: '2px',
  },
  // Text goes around them.
  '.cm-deletedChunk .cm-chunkButtons': { position: 'static', float: 'inline-end' },
  '.cm-chunkButtons button': {
    margin: '2px 3px',
    padding: '2px 8px',
    border: '1px solid var(--line-strong)',
    borderRadius: '6px',
    color: 'var(--text)',
    backgroundColor: 'var(--surface)',
    font: '500 12.5px var(--font)',
    cursor: 'pointer',
  },
});

/** Both sides of each change can be chosen, also by keyboard. */
function choice(phrases: Record<string, string>) {
  return (type: 'accept' | 'reject', act: (event: MouseEvent) => void): HTMLElement => {
    const button = document.createElement('button');
    button.type = 'button';
    button.textContent = phrases[type] ?? type;
    button.onclick = act;
    return button;
  };
}

/** By how much a place apart from all chunks is moved in the other text; undefined: it touches one. */
function shiftAt(chunks: readonly Chunk[], from: number, to: number): number | undefined {
  let shift = 0;
  for (const chunk of chunks) {
    if (chunk.fromB <= to && chunk.endB >= from) {
      return undefined;
    }
    if (chunk.fromB > to) {
      break;
    }
    shift = chunk.toA - chunk.toB;
  }
  return shift;
}

const CHOSEN = ['revert', 'undo', 'redo']; // Events of the user that must bring no text into both sides.

/** What is typed apart from the conflicts is no conflict: it comes into both texts. */
const typedInBoth = EditorState.transactionExtender.of((transaction) => {
  const { startState, changes } = transaction;
  const chunks = getChunks(startState)?.chunks;
  if (!transaction.docChanged || !chunks || CHOSEN.some((one) => transaction.isUserEvent(one))) {
    return null;
  }
  const specs: ChangeSpec[] = [];
  changes.iterChanges((from, to, _fromB, _toB, insert) => {
    const shift = shiftAt(chunks, from, to);
    if (shift !== undefined) {
      specs.push({ from: from + shift, to: to + shift, insert });
    }
  });
  if (specs.length === 0) {
    return null;
  }
  const { length } = getOriginalDoc(startState);
  return { effects: originalDocChangeEffect(startState, ChangeSet.of(specs, length)) };
});

function merging(original: Text, phrases: Record<string, string>): Extension {
  return [
    typedInBoth,
    unifiedMergeView({
      original,
      mergeControls: choice(phrases),
      diffConfig: { scanLimit: 500, timeout: DIFF_MS },
    }),
    keymap.of([
      { key: 'Alt-ArrowDown', run: goToNextChunk },
      { key: 'Alt-ArrowUp', run: goToPreviousChunk },
    ]),
  ];
}

const setGrown = StateEffect.define<Grown | undefined>();

const grownField = StateField.define<Grown | undefined>({
  create: () => undefined,
  update: (grown, { effects }) =>
    effects.reduce((last, one) => (one.is(setGrown) ? one.value : last), grown),
});

/** A merge that is undone has taken nothing of theirs. */
const undoneWithMerge = invertedEffects.of(({ startState, effects }) =>
  effects.some((one) => one.is(setGrown)) ? [setGrown.of(startState.field(grownField))] : [],
);

const comparison = new Compartment();
const dress = new Compartment();

/** How its lines look, as far as that does not hold up the page. */
function dressOf(doc: Text, form: EditForm): Extension {
  for (const line of doc.iterLines()) {
    if (line.length > LINE_MAX) {
      return [];
    }
  }
  const coloured = [json(), bracketMatching(), syntaxHighlighting(colours)];
  return [EditorView.lineWrapping, form === 'json' ? coloured : []];
}

/** What is selected in the page, of which the editor may not have heard yet. Chromium tells events within
 * a shadow root of no ranges, and its roots of their selection; others have none there. */
function rangeOf(event: InputEvent, view: EditorView): AbstractRange | undefined {
  const selection = (view.root as Partial<Document>).getSelection?.();
  const selected = selection && selection.rangeCount > 0 ? selection.getRangeAt(0) : undefined;
  return event.getTargetRanges()[0] ?? selected;
}

/** Browsers put what is typed over a selection into an element that keeps the style of what was there,
 * which the policy forbids. So they are not let. */
function overSelection(lineEnd: '\n' | '\r\n'): Extension {
  return EditorView.domEventHandlers({
    beforeinput: (event, view) => {
      const { main } = view.state.selection;
      const range = rangeOf(event, view);
      if (event.inputType !== 'insertText' || !event.data || view.composing || !range) {
        return false;
      }
      if (range.collapsed) {
        return false;
      }
      const from = main.empty ? view.posAtDOM(range.startContainer, range.startOffset) : main.from;
      const to = main.empty ? view.posAtDOM(range.endContainer, range.endOffset) : main.to;
      const insert = linesOf(event.data, lineEnd);
      view.dispatch({
        changes: { from, to, insert },
        selection: { anchor: from + insert.length },
        userEvent: 'input.type',
        scrollIntoView: true,
      });
      return true;
    },
  });
}

function extensions(options: EditorOptions, begun: Text): Extension {
  const { form, lineEnd, label, phrases } = options;
  const save = () => {
    options.onSave();
    return true;
  };
  return [
    EditorState.lineSeparator.of(lineEnd),
    EditorView.clipboardInputFilter.of((text) => text.replace(/\r\n?|\n/g, lineEnd)),
    EditorState.phrases.of(phrases),
    EditorView.contentAttributes.of({ 'aria-label': label }),
    overSelection(lineEnd),
    lineNumbers(),
    history(),
    grownField.init(() => options.grown),
    undoneWithMerge,
    drawSelection(),
    highlightActiveLine(),
    isFewHidden(options.text) ? highlightSpecialChars({ addSpecialChars: HIDDEN }) : [],
    search({ top: true }),
    EditorView.perLineTextDirection.of(true),
    dress.of(dressOf(begun, form)),
    comparison.of([]),
    keymap.of([
      { key: 'Mod-s', preventDefault: true, run: save },
      ...defaultKeymap,
      ...historyKeymap,
      ...searchKeymap,
    ]),
    look,
    EditorView.updateListener.of(({ docChanged, state }) => {
      if (docChanged) {
        options.onChange(!state.doc.eq(begun));
      }
      options.onChoices(getChunks(state)?.chunks.length ?? 0);
    }),
  ];
}

/** Lines end as in the editor, so that what is taken over fits. */
function linesOf(text: string, lineEnd: '\n' | '\r\n'): Text {
  return Text.of(text.split(lineEnd === '\n' ? '\n' : /\r\n?|\n/));
}

export function openEditor(options: EditorOptions): Editor {
  const { text, lineEnd, root, parent, phrases } = options;
  const doc = Text.of(text.split(lineEnd));
  const state = options.kept ?? EditorState.create({ doc, extensions: extensions(options, doc) });
  const view = new EditorView({ state, root, parent });
  return {
    text: () => view.state.sliceDoc(),
    setText: (all) => {
      const insert = linesOf(all, lineEnd);
      view.dispatch({
        changes: { from: 0, to: view.state.doc.length, insert },
        effects: dress.reconfigure(dressOf(insert, options.form)),
      });
    },
    merge: (base, origin, theirs) => {
      const mine = view.state.doc.toJSON();
      const others = linesOf(theirs, lineEnd).toJSON();
      const merged =
        origin === undefined
          ? { mine, theirs: others, base: undefined }
          : merge3(linesOf(origin, lineEnd).toJSON(), mine, others);
      const grown = merged.base && { base, bytes: encode(merged.base.join(lineEnd)) };
      view.dispatch({ effects: comparison.reconfigure([]) }); // The marks before are of another text.
      view.dispatch({
        changes: { from: 0, to: view.state.doc.length, insert: Text.of(merged.mine) },
        effects: [
          comparison.reconfigure(merging(Text.of(merged.theirs), phrases)),
          setGrown.of(grown),
        ],
        annotations: isolateHistory.of('full'), // Undone alone, and not with what was typed just before.
      });
    },
    grown: () => view.state.field(grownField),
    endMerge: () => view.dispatch({ effects: comparison.reconfigure([]) }),
    focus: () => view.focus(),
    stop: () => {
      const last = view.state;
      view.destroy();
      return last;
    },
  };
}
