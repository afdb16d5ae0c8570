// Where in the dashboard one is: every view, and every znode, has a URL that can be given to others.
//
//   /ui/                                 overview
//   /ui/tree/app/config?tab=stat         the view "tree", the znode /app/config, its tab

import { signal } from '@preact/signals';

const BASE = '/ui/';
const DOCS = '/ui/docs/'; // Pages of their own.

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

/** Whether one must be asked before going there. */
export type Keeper = (to: Route) => boolean;

/** What a keeper has held back: calling it goes there, if the keeper now lets it. */
export const heldBack = signal<(() => void) | undefined>(undefined);

let keeper: Keeper | undefined;
let place = 0; // Of this entry in the history: so that one can be brought back to it.
let returning = false;

/** Until the returned function is called, `ask` is asked before the page shows something else. */
export function keepHere(ask: Keeper): () => void {
  keeper = ask;
  return () => {
    keeper = keeper === ask ? undefined : keeper;
  };
}

export function navigate(url: string, replace = false): void {
  const to = parseUrl(url);
  if (keeper?.(to)) {
    heldBack.value = () => navigate(url, replace);
    return;
  }
  place += replace ? 0 : 1;
  history[replace ? 'replaceState' : 'pushState']({ place }, '', url);
  route.value = to;
}

/** The browser has navigated already: the page that must ask first is brought back. */
function goneTo(state: unknown): void {
  if (state === null) {
    place += 1; // A link within the page, as to its content: an entry that others do not know.
    history.replaceState({ place }, '');
    return;
  }
  const at = placeOf(state);
  const by = at - place;
  const to = parseUrl(location.href);
  if (returning) {
    returning = false;
  } else if (by !== 0 && keeper?.(to)) {
    returning = true;
    history.go(-by);
    heldBack.value = () => history.go(by);
  } else {
    place = at;
    route.value = to;
  }
}

function placeOf(state: unknown): number {
  const at = (state as { place?: unknown } | null)?.place;
  return typeof at === 'number' ? at : 0;
}

/** Back and forward, and plain clicks on links into the dashboard. */
export function followLocation(): void {
  place = placeOf(history.state);
  history.replaceState({ place }, '');
  addEventListener('popstate', ({ state }) => goneTo(state));
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
  const { origin, pathname, hash } = link;
  return (
    origin === location.origin && pathname.startsWith(BASE) && !pathname.startsWith(DOCS) && !hash
  );
}
