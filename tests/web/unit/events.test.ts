import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ApiError } from '../../../web/src/api/error';
import type { WatchRequest } from '../../../web/src/api/socket';
import type { Change } from '../../../web/src/api/types';
import { Newest } from '../../../web/src/views/events/lines';
import {
  EventsModel,
  HELD_MAX,
  KEPT_MAX,
  type Line,
  ndjson,
  parseWanted,
} from '../../../web/src/views/events/model';

/** Fake watches, and a clock of drawings that the test controls. */
function stage() {
  const watches = new Map<string, WatchRequest>();
  let drawing: (() => void) | undefined;
  const model = new EventsModel(
    {
      watch: (request) => {
        const key = `${request.kind}:${request.path}`;
        watches.set(key, request);
        request.onReady?.(undefined);
        return () => watches.delete(key);
      },
    },
    {
      now: () => 1_000,
      soon: (act) => {
        drawing = act;
      },
    },
  );
  const draw = () => {
    const act = drawing;
    drawing = undefined;
    act?.();
  };
  return { model, watches, draw };
}

const change = (path: string, zxid = '0x100000001') =>
  ({ event: 'NodeDataChanged', path, zxid, watches: [1] }) as unknown as Change;

const all = { kind: 'recursive', path: '/a' } as const;

test('one drawing shows all received events, each once', () => {
  const { model, watches, draw } = stage();
  model.want([all, { kind: 'persistent', path: '/a/b' }]);
  const one = change('/a/b');
  watches.get('recursive:/a')?.onChange(one);
  watches.get('persistent:/a/b')?.onChange(one);
  watches.get('recursive:/a')?.onChange(change('/a/c'));
  assert.equal(model.shown.value.lines.length, 0);
  draw();
  assert.equal(model.shown.value.lines.length, 2);
  assert.equal(model.shown.value.total, 2);
  assert.deepEqual(
    model.subscriptions.value.map(({ count }) => count),
    [2, 1],
  );
});

test('kept events are bounded', () => {
  const { model, watches, draw } = stage();
  model.want([all]);
  for (let at = 0; at < KEPT_MAX + 5; at += 1) {
    watches.get('recursive:/a')?.onChange(change(`/a/${at}`));
    if (at % 1_000 === 0) {
      draw();
    }
  }
  draw();
  assert.equal(model.shown.value.lines.length, KEPT_MAX);
  assert.equal(
    (model.shown.value.lines.list().at(-1) as Line & { change: Change }).change.path,
    '/a/10004',
  );
  assert.equal(model.shown.value.total, KEPT_MAX + 5);
});

test('a pause holds new events, within bounds, and shows how many it dropped', () => {
  const { model, watches, draw } = stage();
  model.want([all]);
  model.pause(true);
  for (let at = 0; at < HELD_MAX * 3; at += 1) {
    watches.get('recursive:/a')?.onChange(change(`/a/${at}`));
  }
  draw();
  assert.equal(model.shown.value.lines.length, 0);
  assert.equal(model.shown.value.held, HELD_MAX * 3);
  model.pause(false);
  const lines = model.shown.value.lines.list();
  assert.equal(lines.length, KEPT_MAX);
  assert.deepEqual(
    lines.slice(0, 2).map(({ kind }) => kind),
    ['skipped', 'event'],
  );
  assert.equal((lines.at(-1) as Line & { change: Change }).change.path, `/a/${HELD_MAX * 3 - 1}`);
});

test('events missed by two subscriptions are sent to both, and shown once', () => {
  const { model, watches, draw } = stage();
  model.want([all, { kind: 'persistent', path: '/a/b' }]);
  for (const key of ['recursive:/a', 'persistent:/a/b']) {
    watches.get(key)?.onChange(change('/a/b', '0x1'));
    watches.get(key)?.onChange(change('/a/b', '0x2'));
  }
  watches.get('recursive:/a')?.onChange(change('/a/b', '0x2')); // Twice in one transaction.
  draw();
  assert.deepEqual(
    model.shown.value.lines
      .list()
      .map((line) => line.kind === 'event' && [line.change.zxid, line.of.length]),
    [
      ['0x1', 2],
      ['0x2', 2],
      ['0x2', 1],
    ],
  );
  assert.equal(model.shown.value.total, 3);
});

test('a difference is marked as one, once', () => {
  const { model, watches, draw } = stage();
  model.want([all]);
  const watch = watches.get('recursive:/a');
  const tell = (more: object) => watch?.onChange({ ...change('/a'), ...more });
  watch?.onReady?.('diffed'); // At another replica, too late for single changes.
  tell({ diff: true, end: false });
  tell({ diff: true, end: true });
  tell({ end: true });
  tell({ diff: true, end: true }); // The client was too slow.
  watch?.onReady?.('replayed');
  draw();
  assert.deepEqual(
    model.shown.value.lines.list().map(({ kind }) => kind),
    ['diff', 'event', 'event', 'event', 'diff', 'event'],
  );
});

test('a gap, a loss and a reconnect are lines of the stream', () => {
  const { model, watches, draw } = stage();
  model.want([all]);
  model.follow('resyncing', 'h:1'); // The first connection: no loss.
  model.follow('live', 'h:1');
  model.follow('resyncing', 'h:2');
  model.follow('resyncing', 'h:3');
  model.follow('live', 'h:3');
  watches.get('recursive:/a')?.onReset();
  draw();
  assert.deepEqual(
    model.shown.value.lines.list().map(({ kind }) => kind),
    ['lost', 'back', 'gap'],
  );
  assert.match(
    ndjson(model.shown.value.lines.list()),
    /"event":"gap","watch":"recursive:\/a"\}\n$/,
  );
});

test('a one-shot watch is used up, and can be set again', () => {
  const { model, watches, draw } = stage();
  model.want([{ kind: 'data', path: '/a' }]);
  watches.get('data:/a')?.onChange(change('/a'));
  draw();
  assert.equal(model.subscriptions.value[0]?.state, 'fired');
  assert.equal(watches.size, 0);
  model.again('data:/a');
  assert.equal(model.subscriptions.value[0]?.state, 'watching');
  model.want([]);
  assert.equal(watches.size, 0);
});

test('a refused watch shows the reason', () => {
  const { model, watches } = stage();
  model.want([all]);
  const error = new ApiError({ detail: 'too many watches' });
  watches.get('recursive:/a')?.onRefused?.(error);
  assert.equal(model.subscriptions.value[0]?.error?.message, 'too many watches');
});

test('the subscriptions are in the URL', () => {
  assert.deepEqual(parseWanted('recursive:/a:b'), { kind: 'recursive', path: '/a:b' });
  assert.equal(parseWanted('other:/a'), undefined);
  assert.equal(parseWanted('data:a'), undefined);
});

test('a drawing appends to the list, and a filter applies to new events', () => {
  const { model, watches, draw } = stage();
  model.want([all]);
  model.fit('one');
  const { lines } = model.shown.value;
  for (const name of ['one', 'two', 'One-more']) {
    watches.get('recursive:/a')?.onChange(change(`/a/${name}`));
    draw();
  }
  assert.equal(model.shown.value.lines, lines, 'it is the same array');
  assert.deepEqual([lines.length, model.shown.value.kept, model.shown.value.total], [2, 3, 3]);
  model.fit('');
  assert.equal(model.shown.value.lines.length, 3);
});

test('the newest events are kept, and the number of dropped ones is shown', () => {
  const newest = new Newest<number>(3);
  assert.deepEqual(
    [1, 2, 3, 4, 5].map((one) => newest.push(one)),
    [undefined, undefined, undefined, 1, 2],
  );
  assert.deepEqual([newest.list(), newest.at(0), newest.at(3)], [[3, 4, 5], 3, undefined]);
  assert.equal(newest.shift(), 3);
  newest.push(6);
  assert.deepEqual([newest.list(), newest.length], [[4, 5, 6], 3]);
  newest.clear();
  assert.deepEqual([newest.list(), newest.shift()], [[], undefined]);
});
