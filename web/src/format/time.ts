// Times in the reader's zone, in UTC, and as "3 minutes ago".

import { language, locale } from '../i18n';

export const NO_TIME = '—';

const UNITS: [Intl.RelativeTimeFormatUnit, number][] = [
  ['year', 31_557_600_000],
  ['month', 2_629_800_000],
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
  ['second', 1_000],
];

/** Made once for each language: making one takes as long as a hundred uses of it. */
function once<Format>(make: (language: string) => Format): () => Format {
  const made = new Map<string, Format>();
  return () => {
    const known = made.get(locale()) ?? make(locale());
    made.set(locale(), known);
    return known;
  };
}

const moments = once(
  (language) => new Intl.DateTimeFormat(language, { dateStyle: 'medium', timeStyle: 'medium' }),
);
const ages = once((language) => new Intl.RelativeTimeFormat(language, { numeric: 'auto' }));

/** Dates of JavaScript end here, and throw beyond: a page must still show what a replica answers. */
const LAST_MOMENT = 8.64e15;

function isMoment(ms: number): boolean {
  return Math.abs(ms) <= LAST_MOMENT;
}

export function localTime(ms: number): string {
  return isMoment(ms) ? moments().format(ms) : NO_TIME;
}

export function utcTime(ms: number): string {
  if (!isMoment(ms)) {
    return NO_TIME;
  }
  return new Date(ms).toISOString().replace('T', ' ').replace('Z', ' UTC');
}

/** How long ago, or in how long, in one unit. The root and its like are there from the start: 0, no time. */
export function relativeTime(ms: number, now = Date.now()): string {
  if (ms === 0) {
    return NO_TIME;
  }
  const away = ms - now;
  const [unit, size] = UNITS.find(([, one]) => Math.abs(away) >= one) ?? ['second', 1_000];
  return ages().format(Math.trunc(away / size), unit);
}

/** Names of units. In Chinese no blank follows them: "500 毫秒前". */
const UNIT_NAMES = {
  en: { d: 'd', h: 'h', min: 'min', s: 's', ms: 'ms' },
  zh: { d: '天', h: '小时', min: '分', s: '秒', ms: '毫秒' },
};

/** "3 d 4 h", "12 s", "40 ms" or "3 天 4 小时": two units at most. */
export function duration(ms: number): string {
  const names = UNIT_NAMES[language.value];
  if (ms < 1_000) {
    return `${Math.round(ms)} ${names.ms}`;
  }
  const parts: [string, number][] = [
    [names.d, 86_400_000],
    [names.h, 3_600_000],
    [names.min, 60_000],
    [names.s, 1_000],
  ];
  const first = parts.findIndex(([, size]) => ms >= size);
  return parts
    .slice(first, first + 2)
    .map(([name, size], at) => {
      const above = at === 0 ? Number.POSITIVE_INFINITY : (parts[first]?.[1] ?? 1);
      return [Math.floor((ms % above) / size), name] as const;
    })
    .filter(([count], at) => at === 0 || count > 0)
    .map(([count, name]) => `${count} ${name}`)
    .join(' ');
}
