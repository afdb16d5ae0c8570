// A live stream of what happens. What is watched, and the filter, are in the URL: a link shows the same.

import { useSignal } from '@preact/signals';
import { useEffect, useLayoutEffect, useMemo } from 'preact/hooks';
import type { WatchKind } from '../../api/types';
import { socket } from '../../app/cluster';
import { identity } from '../../app/identity';
import { navigate, route, urlOf } from '../../app/router';
import { visibleName } from '../../format/text';
import { locale } from '../../i18n';
import { Button } from '../../ui/button';
import { copyText } from '../../ui/copy';
import { Empty } from '../../ui/state';
import {
  EventsModel,
  isOnce,
  KEPT_MAX,
  KINDS,
  keyOf,
  ndjson,
  parseWanted,
  SUBSCRIPTIONS_MAX,
  type Subscription,
  type Wanted,
} from './model';
import { Stream } from './stream';
import { say } from './texts';

const DRAW_MS = 100; // Between two drawings: faster is unreadable, and keeps the browser busy.

let drawn = 0; // When, by the clock of frames.

const host = {
  now: () => Date.now(),
  soon: (act: () => void) => {
    const wait = Math.max(0, drawn + DRAW_MS - performance.now());
    setTimeout(() => {
      requestAnimationFrame(() => {
        drawn = performance.now();
        act();
      });
    }, wait);
  },
};

function wantedOf(query: URLSearchParams): Wanted[] {
  return query.getAll('watch').flatMap((text) => parseWanted(text) ?? []);
}

/** The same view with other things watched, or another filter. */
function go(wanted: Wanted[], filter: string, replace = false): void {
  const query = new URLSearchParams(wanted.map((one) => ['watch', keyOf(one)]));
  if (filter) {
    query.set('filter', filter);
  }
  const search = query.toString();
  navigate(`${urlOf('events')}${search && `?${search}`}`, replace);
}

function useModel(): EventsModel {
  const model = useMemo(() => new EventsModel(socket, host), []);
  const { query } = route.value;
  const asked = query.getAll('watch').join('\n');
  useEffect(() => model.want(wantedOf(route.peek().query)), [model, asked]);
  useEffect(() => {
    for (const { key, state } of model.subscriptions.peek()) {
      if (state === 'refused') {
        model.again(key); // Another identity may see more.
      }
    }
  }, [model, identity.value]);
  const link = socket.link.value;
  useEffect(() => model.follow(link, socket.replica.peek()), [model, link]);
  useEffect(() => () => model.stop(), [model]);
  return model;
}

export default function EventsView() {
  const model = useModel();
  const filter = route.value.query.get('filter') ?? '';
  useLayoutEffect(() => model.fit(filter.trim().toLowerCase()), [model, filter]);
  const { lines, kept } = model.shown.value;
  return (
    <div class="events">
      <h1 class="sr-only">{say('title')}</h1>
      <Watched model={model} />
      <Tools model={model} filter={filter} onCopy={() => void copyText(ndjson(lines.list()))} />
      {model.subscriptions.value.length === 0 && kept === 0 ? (
        <Empty icon="events">{say('none')}</Empty>
      ) : (
        <Stream shown={model.shown.value} />
      )}
    </div>
  );
}

function Watched({ model }: { model: EventsModel }) {
  const kind = useSignal<WatchKind>('recursive');
  const path = useSignal('/');
  const wrong = path.value !== '' && !path.value.startsWith('/');
  const subscriptions = model.subscriptions.value;
  const full = subscriptions.length >= SUBSCRIPTIONS_MAX;
  const submit = (event: Event) => {
    event.preventDefault();
    const trimmed = path.value.length > 1 ? path.value.replace(/\/+$/, '') : path.value;
    const one = { kind: kind.value, path: trimmed || '/' };
    const known = wantedOf(route.peek().query);
    if (known.some((other) => keyOf(other) === keyOf(one))) {
      model.again(keyOf(one));
    } else if (!wrong && !full) {
      go([...known, one], route.peek().query.get('filter') ?? '');
    }
  };
  return (
    <section class="events-watched" aria-label={say('subscriptions')}>
      <form class="bar" onSubmit={submit}>
        <select
          aria-label={say('kind')}
          value={kind}
          onChange={(event) => {
            kind.value = event.currentTarget.value as WatchKind;
          }}
        >
          {KINDS.map((one) => (
            <option key={one} value={one}>
              {say(`kind_${one}`)}
            </option>
          ))}
        </select>
        <input
          class="events-path"
          aria-label={say('path')}
          aria-invalid={wrong}
          spellcheck={false}
          required
          value={path}
          onInput={(event) => {
            path.value = event.currentTarget.value;
          }}
        />
        <Button
          kind="primary"
          type="submit"
          reason={
            wrong ? say('path_wrong') : full ? say('many', { count: SUBSCRIPTIONS_MAX }) : undefined
          }
        >
          {say('add')}
        </Button>
      </form>
      {subscriptions.length > 0 && (
        <ul class="subscriptions">
          {subscriptions.map((one) => (
            <Chip key={one.key} one={one} model={model} />
          ))}
        </ul>
      )}
    </section>
  );
}

const LAMPS = { watching: 'good', starting: 'warn', fired: 'warn', refused: 'bad' } as const;

function Chip({ one, model }: { one: Subscription; model: EventsModel }) {
  const { key, kind, path, state, error, count } = one;
  const remove = () => {
    const { query } = route.peek();
    go(
      wantedOf(query).filter((other) => keyOf(other) !== key),
      query.get('filter') ?? '',
    );
  };
  return (
    <li class="subscription">
      <span class={`dot ${LAMPS[state]}`}>{say(`kind_${kind}`)}</span>
      <a href={urlOf('tree', path)}>
        <bdi>{visibleName(path)}</bdi>
      </a>
      {state !== 'watching' && (
        <span class="hint">
          {error ? say('refused', { detail: error.message }) : say(`state_${state}`)}
        </span>
      )}
      <span class="count">{count.toLocaleString(locale())}</span>
      {(state === 'refused' || (state === 'fired' && isOnce(kind))) && (
        <Button kind="quiet" icon="refresh" label={say('again')} onClick={() => model.again(key)} />
      )}
      <Button
        kind="quiet"
        icon="close"
        label={say('remove', { path: visibleName(path) })}
        onClick={remove}
      />
    </li>
  );
}

function Tools({
  model,
  filter,
  onCopy,
}: {
  model: EventsModel;
  filter: string;
  onCopy: () => void;
}) {
  const paused = model.paused.value;
  const { lines, kept: count, held, total } = model.shown.value;
  const shown = lines.length;
  return (
    <div class="bar events-tools">
      <input
        type="search"
        data-filter
        aria-label={say('filter')}
        placeholder={say('filter')}
        value={filter}
        onInput={(event) => go(wantedOf(route.peek().query), event.currentTarget.value, true)}
      />
      <Button pressed={paused} onClick={() => model.pause(!paused)}>
        {say(paused ? 'resume' : 'pause')}
        {paused && held > 0 && <span class="count">{say('held', { count: held })}</span>}
      </Button>
      <Button onClick={() => model.clear()}>{say('clear')}</Button>
      <Button kind="quiet" icon="copy" label={say('copy')} onClick={onCopy} />
      <span class="spacer" />
      <span class="hint events-total">
        {say('total', { count: total })}
        {shown < count && <>, {say('hidden', { shown, count })}</>}
        {count >= KEPT_MAX && <>. {say('kept', { count: KEPT_MAX })}</>}
      </span>
    </div>
  );
}
