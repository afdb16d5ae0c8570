// Light, dark, or as the system has it. Styles follow the attribute; see styles/base.css.

import { effect, signal } from '@preact/signals';
import { recall, store } from './settings';

export const THEMES = ['auto', 'light', 'dark'] as const;

export type Theme = (typeof THEMES)[number];

export const theme = signal<Theme>(recall('theme', THEMES) ?? 'auto');

export function followTheme(): void {
  effect(() => {
    document.documentElement.dataset['theme'] = theme.value;
    store('theme', theme.value);
  });
}

export function nextTheme(): void {
  theme.value = THEMES[(THEMES.indexOf(theme.value) + 1) % THEMES.length] ?? 'auto';
}
