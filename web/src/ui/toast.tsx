// Short remarks that go away by themselves; errors stay until they are closed.

import { signal } from '@preact/signals';
import { Button } from './button';
import { Icon } from './icon';
import { say } from './texts';

const SHOWN_MS = 5_000;
const TOASTS_MAX = 4;

/** What was asked for is done; something has happened by itself; something has failed. */
type Kind = 'done' | 'news' | 'error';

const ICONS = { done: 'check', news: 'info', error: 'warning' } as const;

interface Toast {
  id: number;
  text: string;
  kind: Kind;
}

const toasts = signal<Toast[]>([]);
let last = 0;

export function toast(text: string, error = false): void {
  add(text, error ? 'error' : 'done');
}

/** Of what has happened by itself: not done, and no error. */
export function announce(text: string): void {
  add(text, 'news');
}

function add(text: string, kind: Kind): void {
  const id = ++last;
  toasts.value = [...toasts.value, { id, text, kind }].slice(-TOASTS_MAX);
  if (kind !== 'error') {
    setTimeout(() => remove(id), SHOWN_MS);
  }
}

function remove(id: number): void {
  toasts.value = toasts.value.filter((one) => one.id !== id);
}

export function Toasts() {
  return (
    <div class="toasts" role="status">
      {toasts.value.map(({ id, text, kind }) => (
        <div key={id} class={`toast ${kind}`}>
          <Icon name={ICONS[kind]} />
          <span>{text}</span>
          <Button kind="quiet" icon="close" label={say('close')} onClick={() => remove(id)} />
        </div>
      ))}
    </div>
  );
}
