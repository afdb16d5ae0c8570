// Keys that work everywhere: `g` and a letter go to a view, `/` to the filter, `?` shows them all, Ctrl-K
// (on a Mac Cmd-K) asks where to go; and those of what is shown now.

import { signal } from '@preact/signals';
import { useLayoutEffect } from 'preact/hooks';
import { views } from '../views';
import { navigate, urlOf } from './router';

const SECOND_MS = 1_000; // For the letter after `g`.

export const helpOpen = signal(false);
export const paletteOpen = signal(false);

const isMac = /Mac|iP/.test(globalThis.navigator?.platform ?? '');

/** As it stands on the keyboard. */
export const PALETTE_KEY = isMac ? '\u2318 K' : 'Ctrl K';

function asksWhere(event: KeyboardEvent): boolean {
  const modifier = isMac ? event.metaKey : event.ctrlKey;
  return modifier && !event.altKey && !event.shiftKey && event.key.toLowerCase() === 'k';
}

export interface Shortcut {
  /** As `KeyboardEvent.key` has it. */
  key: string;
  /** What it does, for the help. */
  text: () => string;
  act: () => void;
}

/** Of what is shown, the newest first. */
export const shortcuts = signal<Shortcut[]>([]);

/** Keys of a component, from the moment it is shown: a key pressed at the first sight of it is not lost. */
export function useShortcuts(those: Shortcut[], inputs: unknown[]): void {
  useLayoutEffect(() => {
    shortcuts.value = [...those, ...shortcuts.peek()];
    return () => {
      shortcuts.value = shortcuts.peek().filter((one) => !those.includes(one));
    };
  }, inputs);
}

/** An editor is within a shadow root, which the path of the event knows. */
function takesText(event: Event): boolean {
  const target = event.composedPath()[0];
  return (
    target instanceof HTMLElement &&
    target.closest('input, textarea, select, [contenteditable]') !== null
  );
}

/** The keys of the page behind a dialog rest. */
function inDialog(): boolean {
  return document.querySelector('dialog[open]') !== null;
}

export function followKeys(): void {
  let goes = 0; // Until when the next letter names a view.
  addEventListener('keydown', (event) => {
    if (asksWhere(event) && !inDialog()) {
      event.preventDefault();
      paletteOpen.value = true;
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || takesText(event) || inDialog()) {
      return;
    }
    const view = views.find(({ key }) => key === event.key);
    if (event.timeStamp < goes && view) {
      event.preventDefault();
      navigate(urlOf(view.name));
    } else if (event.key === '/') {
      const filter = document.querySelector<HTMLElement>('[data-filter]');
      filter?.focus();
      event.preventDefault();
    } else if (event.key === '?') {
      helpOpen.value = true;
    } else {
      const shortcut = shortcuts.peek().find(({ key }) => key === event.key);
      if (shortcut) {
        event.preventDefault();
        shortcut.act();
      }
    }
    goes = event.key === 'g' ? event.timeStamp + SECOND_MS : 0;
  });
}
