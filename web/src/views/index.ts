// The views, in the order of the navigation. A new one is a folder with a view.tsx and a line here;
// see README.md.

import type { ComponentType } from 'preact';
import type { IconName } from '../ui/icon';
import { say } from './texts';

export interface View {
  /** First part of its URL. */
  name: string;
  /** The letter after `g`. */
  key: string;
  icon: IconName;
  title: () => string;
  /** Its code comes when it is first shown, or when the browser has nothing else to do. */
  load: () => Promise<{ default: ComponentType }>;
}

export const views: View[] = [
  {
    name: 'overview',
    key: 'o',
    icon: 'activity',
    title: () => say('overview'),
    load: () => import('./overview/view'),
  },
  {
    name: 'tree',
    key: 't',
    icon: 'tree',
    title: () => say('tree'),
    load: () => import('./tree/view'),
  },
  {
    name: 'events',
    key: 'v',
    icon: 'events',
    title: () => say('events'),
    load: () => import('./events/view'),
  },
  {
    name: 'recipes',
    key: 'r',
    icon: 'recipes',
    title: () => say('recipes'),
    load: () => import('./recipes/view'),
  },
  {
    name: 'sessions',
    key: 's',
    icon: 'sessions',
    title: () => say('sessions'),
    load: () => import('./sessions/view'),
  },
  {
    name: 'ensemble',
    key: 'e',
    icon: 'ensemble',
    title: () => say('ensemble'),
    load: () => import('./ensemble/view'),
  },
  {
    name: 'metrics',
    key: 'm',
    icon: 'metrics',
    title: () => say('metrics'),
    load: () => import('./metrics/view'),
  },
  {
    name: 'tools',
    key: 'l',
    icon: 'tools',
    title: () => say('tools'),
    load: () => import('./tools/view'),
  },
];
