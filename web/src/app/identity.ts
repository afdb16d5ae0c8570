// The user of the page. The password stays in memory, or in the storage of this tab when the user says so.

import { signal } from '@preact/signals';
import type { Identity } from '../api/socket';

const NAME = 'zabra.identity';

function remembered(): Identity | undefined {
  try {
    const found = JSON.parse(sessionStorage.getItem(NAME) ?? 'null');
    return typeof found?.user === 'string' && typeof found.password === 'string'
      ? found
      : undefined;
  } catch {
    return undefined;
  }
}

/** The dialog in which one signs in and out. */
export const loginOpen = signal(false);

export const identity = signal<Identity | undefined>(remembered());

export function signIn(found: Identity, remember: boolean): void {
  identity.value = found;
  keep(remember ? JSON.stringify(found) : undefined);
}

export function signOut(): void {
  identity.value = undefined;
  keep(undefined);
}

function keep(text: string | undefined): void {
  try {
    if (text === undefined) {
      sessionStorage.removeItem(NAME);
    } else {
      sessionStorage.setItem(NAME, text);
    }
  } catch {
    // Storage is switched off: it is gone with the page.
  }
}
