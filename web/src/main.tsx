// The page: what is there from the start. Views come when they are shown, and the others when the
// browser has nothing to do, so that all are here when the replica they come from is lost.

import './styles/index.css';
import { render } from 'preact';
import { followCluster } from './app/cluster';
import { Frame } from './app/frame';
import { followKeys } from './app/keyboard';
import { followLocation } from './app/router';
import { followTheme } from './app/theme';
import { followLanguage } from './i18n';
import { views } from './views';

const PREFETCH_MS = 1_500;

followTheme();
followLanguage();
followLocation();
followKeys();
followCluster();
render(<Frame />, document.body);
setTimeout(() => {
  for (const view of views) {
    view.load().catch(() => undefined); // Tried again when it is shown.
  }
}, PREFETCH_MS);
