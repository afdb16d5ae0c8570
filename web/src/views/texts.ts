import { defineTexts } from '../i18n';

/** Titles of the views. */
export const say = defineTexts(
  {
    ensemble: 'Ensemble',
    events: 'Events',
    metrics: 'Metrics',
    overview: 'Overview',
    recipes: 'Recipes',
    sessions: 'Sessions',
    tools: 'Tools',
    tree: 'Tree',
  },
  {
    ensemble: '集群',
    events: '事件',
    metrics: '指标',
    overview: '概览',
    recipes: '协调模式',
    sessions: '会话',
    tools: '工具',
    tree: '节点树',
  },
);
