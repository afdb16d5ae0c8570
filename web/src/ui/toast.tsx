// Short remarks that go away by themselves; errors stay until they are closed.

import { signal } from '@preact/signals';
import { Button } from './button';
import { Icon } from './icon';
import { say } from './texts';

const SHOWN_MS = 5_000;
const TOASTS_MAX = 4;

interface Toast {
  id: number;
  text: string;
  error: boolean;
}

const toasts = signal<Toast[]>([]);
let last = 0;

export function toast(text: string, error = false): void {
  const id = ++last;
  toasts.value = [...toasts.value, { id, text, error }].slice(-TOASTS_MAX);
  if (!error) {
    setTimeout(() => remove(id), SHOWN_MS);
  }
}

function remove(id: number): void {
  toasts.value = toasts.value.filter((one) => one.id !== id);
}

export function Toasts() {
  return (
    <div class="toasts" role="status">
      {toasts.value.map(({ id, text, error }) => (
        <div key={id} class={error ? 'toast error' : 'toast'}>
          <Icon name={error ? 'warning' : 'check'} />
          <span>{text}</span>
          <Button kind="quiet" icon="close" label={say('close')} onClick={() => remove(id)} />
        </div>
      ))}
    </div>
  );
}
