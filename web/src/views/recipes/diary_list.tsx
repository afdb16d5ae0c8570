import { language, locale } from '../../i18n';
import type { Entry } from './diary';
import { say } from './texts';

function list(names: string[]): string {
  return new Intl.ListFormat(locale(), { style: 'short' }).format(names);
}

function sentence({ came, cameCount, gone, goneCount, first }: Entry): string {
  const parts: string[] = [];
  if (goneCount > 0) {
    const names = { names: list(gone) };
    parts.push(
      goneCount > gone.length ? say('gone_many', { count: goneCount }) : say('gone', names),
    );
  }
  if (cameCount > 0) {
    const names = { names: list(came) };
    parts.push(
      cameCount > came.length ? say('came_many', { count: cameCount }) : say('came', names),
    );
  }
  if (first !== undefined) {
    parts.push(say('first', { name: first }));
  }
  return parts.join(language.value === 'zh' ? '；' : '; ');
}

/** What has happened while one looked. */
export function Diary({ entries }: { entries: Entry[] }) {
  const clock = new Intl.DateTimeFormat(locale(), { timeStyle: 'medium' });
  return (
    <section class="panel diary" aria-labelledby="diary">
      <header>
        <h2 id="diary">{say('diary')}</h2>
      </header>
      {entries.length === 0 && <p class="hint">{say('diary_none')}</p>}
      <ol>
        {entries.map((entry) => (
          <li key={entry.at}>
            <time dateTime={new Date(entry.at).toISOString()}>{clock.format(entry.at)}</time>
            <bdi>{sentence(entry)}</bdi>
          </li>
        ))}
      </ol>
    </section>
  );
}
