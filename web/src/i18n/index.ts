// Texts in English and Chinese. Each part of the dashboard has a catalogue of its own (texts.ts): the
// types demand that both languages have the same keys.

import { effect, signal } from '@preact/signals';
import { recall, store } from '../app/settings';

export type Language = 'en' | 'zh';

export type Values = Record<string, string | number>;

/** Ids of replicas are names, which have no separators as amounts have. */
const IDS = new Set(['at', 'from', 'id', 'leader', 'other', 'to']);

/** All catalogues, for the test that compares them. */
export const catalogues: { en: Record<string, string>; zh: Record<string, string> }[] = [];

function preferred(): Language {
  return navigator.language.toLowerCase().startsWith('zh') ? 'zh' : 'en';
}

export const language = signal<Language>(recall('language', ['en', 'zh']) ?? preferred());

/** The language as browsers and Intl call it. */
export function locale(): string {
  return language.value === 'zh' ? 'zh-CN' : 'en-GB';
}

export function followLanguage(): void {
  effect(() => {
    document.documentElement.lang = locale();
    store('language', language.value);
  });
}

/** A function that says a text of the catalogue in the language of now, with {name} filled in. */
export function defineTexts<const En extends Record<string, string>>(
  en: En,
  zh: Record<keyof En, string>,
): (key: keyof En, values?: Values) => string {
  catalogues.push({ en, zh });
  return (key, values = {}) => {
    const text: string = (language.value === 'zh' ? zh : en)[key];
    return text.replace(/\{(\w+)\}/g, (whole, name: string) => {
      const value = values[name];
      const isAmount = typeof value === 'number' && !IDS.has(name);
      return isAmount ? value.toLocaleString(locale()) : String(value ?? whole);
    });
  };
}
