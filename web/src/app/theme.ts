// Light, dark, or as the system has it. Styles follow the attribute; see styles/base.css.

import { computed, effect, signal } from '@preact/signals';
import { recall, store } from './settings';

export const THEMES = ['auto', 'light', 'dark'] as const;

export type Theme = (typeof THEMES)[number];

export const theme = signal<Theme>(recall('theme', THEMES) ?? 'auto');

const system = matchMedia('(prefers-color-scheme: dark)');
const systemIsDark = signal(system.matches);

/** What is shown. */
export const shownTheme = computed<'light' | 'dark'>(() => {
  if (theme.value !== 'auto') {
    return theme.value;
  }
  return systemIsDark.value ? 'dark' : 'light';
});

export function followTheme(): void {
  system.addEventListener('change', () => {
    systemIsDark.value = system.matches;
  });
  effect(() => {
    document.documentElement.dataset['theme'] = shownTheme.value;
    store('theme', theme.value);
  });
}

export function nextTheme(): void {
  theme.value = THEMES[(THEMES.indexOf(theme.value) + 1) % THEMES.length] ?? 'auto';
}
