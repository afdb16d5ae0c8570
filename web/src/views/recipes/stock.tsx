// Queues and counters.

import { childOf } from '../../format/path';
import { duration, relativeTime } from '../../format/time';
import { locale } from '../../i18n';
import { Facts, Sentence, useLabel, useScene } from './parts';
import { type Place, placesOf } from './shape';
import { say } from './texts';

const ITEMS = 20; // So many of the head are drawn.

export function QueueDrawing() {
  const { picture, now } = useScene();
  const places = placesOf(picture.children);
  const oldest = places[0]?.stat?.ctime;
  const shown = places.slice(0, ITEMS);
  const count = picture.total;
  return (
    <>
      <Sentence icon="box">
        {count === 0 || oldest === undefined
          ? say('queue_none')
          : say('queue_count', { count, age: duration(Math.max(0, now.value - oldest)) })}
      </Sentence>
      {shown.length > 0 && (
        <ol class="line" aria-label={say('line')}>
          {shown.map((place, at) => (
            <li key={place.name} class="line-step">
              <Item path={childOf(picture.path, place.name)} place={place} head={at === 0} />
            </li>
          ))}
        </ol>
      )}
      {count > shown.length && (
        <p class="hint recipe-note">{say('queue_more', { count: count - shown.length })}</p>
      )}
    </>
  );
}

function Item({ path, place: { stat }, head }: { path: string; place: Place; head: boolean }) {
  const label = useLabel(path);
  return (
    <div class={head ? 'stand holds' : 'stand'}>
      <span class="stand-name">
        <strong>
          <bdi>{label}</bdi>
        </strong>
        {head && <span class="chip good">{say('head')}</span>}
      </span>
      <Facts path={path} stat={stat} />
    </div>
  );
}

export function CounterDrawing() {
  const { picture } = useScene();
  const { path, stat } = picture;
  const text = useScene().texts.value.get(path)?.text?.trim() ?? '';
  const isNumber = /^-?\d+$/.test(text);
  return (
    <>
      <Sentence icon="hash">
        {isNumber ? (
          <span class="counter-value">{BigInt(text).toLocaleString(locale())}</span>
        ) : (
          say('counter_none')
        )}
      </Sentence>
      <p class="hint recipe-note">{say('changed', { when: relativeTime(stat.mtime) })}</p>
    </>
  );
}
