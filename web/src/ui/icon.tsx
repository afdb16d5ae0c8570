// Drawings of 20 by 20, all lines. They say nothing that is not also said in words.

const PATHS = {
  activity: 'M2 10h4l2-6 4 12 2-6h4',
  tree: 'M4 4v10a2 2 0 0 0 2 2h3M4 9h5M12 7h5v4h-5zM12 14h5v4h-5zM2 2h5v3H2z',
  ensemble:
    'M10 3v4M10 13v4M10 7a3 3 0 1 1 0 6 3 3 0 0 1 0-6zM3 16l4.4-4M17 16l-4.4-4M3 4l4.4 4M17 4l-4.4 4',
  sessions:
    'M7 9a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM2 17c0-3 2-5 5-5s5 2 5 5M13 4a3 3 0 0 1 0 5M14 12c2.4.5 4 2.3 4 5',
  events: 'M10 3a5 5 0 0 1 5 5c0 4 2 5 2 6H3c0-1 2-2 2-6a5 5 0 0 1 5-5zM8 17h4',
  recipes: 'M4 9h12v8H4zM6.5 9V6a3.5 3.5 0 0 1 7 0v3M10 12v2',
  metrics: 'M3 17V3M3 17h14M7 14V9M11 14V5M15 14v-3',
  tools: 'M4 16l6-6M12 3a4 4 0 0 1 5 5l-4 1-2-2zM3 15l2 2',
  key: 'M13 3a4 4 0 1 1-3.6 5.8L3 15v2h3v-2h2v-2h1.5l1.7-1.6M14 6.5v.1',
  lock: 'M5 9h10v8H5zM7 9V6.5a3 3 0 0 1 6 0V9',
  unlock: 'M5 9h10v8H5zM7 9V6.5a3 3 0 0 1 5.8-1',
  sun: 'M10 6a4 4 0 1 1 0 8 4 4 0 0 1 0-8zM10 1v2M10 17v2M1 10h2M17 10h2M3.6 3.6 5 5M15 15l1.4 1.4M3.6 16.4 5 15M15 5l1.4-1.4',
  moon: 'M16 12.5A7 7 0 0 1 7.5 4 6.5 6.5 0 1 0 16 12.5z',
  auto: 'M10 3a7 7 0 1 1 0 14zM10 3a7 7 0 0 0 0 14',
  user: 'M10 10a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7zM3 17.5c0-3.5 3-5.5 7-5.5s7 2 7 5.5',
  right: 'M8 5l5 5-5 5',
  down: 'M5 8l5 5 5-5',
  copy: 'M7 7h10v10H7zM13 7V3H3v10h4',
  refresh: 'M16 4v4h-4M4 16v-4h4M15.5 8A6 6 0 0 0 5 6M4.5 12A6 6 0 0 0 15 14',
  close: 'M5 5l10 10M15 5 5 15',
  warning: 'M10 3 18 17H2zM10 8v4M10 14.5v.1',
  check: 'M4 10.5l4 4 8-9',
  info: 'M10 2.5a7.5 7.5 0 1 1 0 15 7.5 7.5 0 0 1 0-15zM10 9v5M10 6v.1',
  clock: 'M10 2.5a7.5 7.5 0 1 1 0 15 7.5 7.5 0 0 1 0-15zM10 6v4l3 2',
  bolt: 'M11 2 4 11h5l-1 7 7-9h-5z',
  box: 'M3 6l7-3 7 3v8l-7 3-7-3zM3 6l7 3 7-3M10 9v8',
  hash: 'M7 3 5 17M15 3l-2 14M3 7h14M3 13h14',
  node: 'M5 3h7l3 3v11H5zM12 3v3h3',
  download: 'M10 3v9M6 9l4 4 4-4M4 17h12',
  edit: 'M12.5 4.5l3 3L7 16H4v-3zM11 6l3 3',
  plus: 'M10 4v12M4 10h12',
  star: 'M10 2.8l2.2 4.6 5 .7-3.6 3.5.9 5-4.5-2.4-4.5 2.4.9-5L2.8 8.1l5-.7z',
  trash: 'M4 6h12M8 6V3.5h4V6M5.5 6l.8 10.5h7.4L14.5 6M8.5 9v5M11.5 9v5',
  upload: 'M10 12V3M6 7l4-4 4 4M4 17h12',
  marks: 'M3 4h4v4H3zM3 12h4v4H3zM10 6h7M10 14h7',
  search: 'M9 3a6 6 0 1 1 0 12A6 6 0 0 1 9 3zM13.5 13.5 18 18',
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg class="icon" viewBox="0 0 20 20" width="16" height="16" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}
