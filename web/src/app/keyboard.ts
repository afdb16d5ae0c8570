// Keys that work everywhere: `g` and a letter go to a view, `/` to the filter, `?` shows them all.

import { signal } from '@preact/signals';
import { views } from '../views';
import { navigate, urlOf } from './router';

const SECOND_MS = 1_000; // For the letter after `g`.

export const helpOpen = signal(false);

function takesText(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement && target.matches('input, textarea, select, [contenteditable]')
  );
}

export function followKeys(): void {
  let goes = 0; // Until when the next letter names a view.
  addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || takesText(event.target)) {
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
    }
    goes = event.key === 'g' ? event.timeStamp + SECOND_MS : 0;
  });
}
