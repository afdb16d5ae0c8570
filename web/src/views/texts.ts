import { defineTexts } from '../i18n';

/** Titles of the views. */
export const say = defineTexts(
  { overview: 'Overview', tree: 'Tree' },
  { overview: '概览', tree: '节点树' },
);
