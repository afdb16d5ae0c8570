// Where in the dashboard one is: every view, and every znode, has a URL that can be given to others.
//
//   /ui/                                 overview
//   /ui/tree/app/config?tab=stat         the view "tree", the znode /app/config, its tab

import { signal } from '@preact/signals';

const BASE = '/ui/';

export interface Route {
  view: string;
  /** What follows the view, decoded, from its slash on; "/" when there is nothing. */
  path: string;
  query: URLSearchParams;
}

export function parseUrl(url: string): Route {
  const { pathname, searchParams } = new URL(url, 'http://page');
  const rest = pathname.startsWith(BASE) ? pathname.slice(BASE.length) : '';
  const [view, ...names] = rest.split('/');
  const path = `/${names
    .filter((name) => name !== '')
    .map(decodeName)
    .join('/')}`;
  return { view: view || 'overview', path, query: searchParams };
}

function decodeName(name: string): string {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

/** The URL of a view, of a znode in it, with parameters. */
export function urlOf(view: string, path = '/', query: Record<string, string> = {}): string {
  const names = path.split('/').filter((name) => name !== '');
  const search = new URLSearchParams(query).toString();
  return `${BASE}${[view, ...names.map(encodeURIComponent)].join('/')}${search && `?${search}`}`;
}

export const route = signal<Route>(parseUrl(location.href));

export function navigate(url: string, replace = false): void {
  history[replace ? 'replaceState' : 'pushState'](null, '', url);
  route.value = parseUrl(url);
}

/** Back and forward, and plain clicks on links into the dashboard. */
export function followLocation(): void {
  addEventListener('popstate', () => {
    route.value = parseUrl(location.href);
  });
  addEventListener('click', (event) => {
    const link = event.target instanceof Element ? event.target.closest('a') : null;
    const plain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey;
    if (!link || !plain || event.defaultPrevented || link.target || !isInside(link)) {
      return;
    }
    event.preventDefault();
    navigate(link.pathname + link.search);
  });
}

function isInside(link: HTMLAnchorElement): boolean {
  return link.origin === location.origin && link.pathname.startsWith(BASE) && !link.hash;
}
