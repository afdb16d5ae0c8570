import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { Socket, WatchRequest } from '../../../web/src/api/socket';
import { PAGE, rowByName, rowOf, TreeModel } from '../../../web/src/views/tree/model';
import { PART_MS, SEEK_MS } from '../../../web/src/views/tree/seek';

/** A fake tree from a list of paths; it counts requests. */
class Fake {
  asked: string[] = [];
  sought: string[] = [];
  step = 100;
  /** Duration of each search. */
  pass: () => void = () => undefined;
  watches = new Map<string, WatchRequest>();
  paths: Set<string>;

  constructor(paths: string[]) {
    this.paths = new Set(paths);
  }

  names(path: string): string[] {
    const start = path === '/' ? '/' : `${path}/`;
    return [...this.paths]
      .filter((one) => one.startsWith(start) && !one.slice(start.length).includes('/'))
      .map((one) => one.slice(start.length))
      .sort();
  }

  /** The number of znodes that each search request may check. */
  search({ path, name = '', after }: { path: string; name?: string; after?: string }) {
    const all = [
      path,
      ...this.names(path).map((one) => (path === '/' ? `/${one}` : `${path}/${one}`)),
    ];
    const start = after ? all.indexOf(after) + 1 : 0;
    const looked = all.slice(start, start + this.step);
    return {
      nodes: looked.filter((one) => one.includes(name)).map((one) => ({ path: one })),
      more: start + this.step < all.length,
      after: looked.at(-1),
      looked: looked.length,
    };
  }

  async read(
    op: string,
    { path, limit, after = '', ...more }: { path: string; limit: number; after?: string },
  ) {
    if (op === 'search') {
      this.sought.push(after);
      await Promise.resolve(); // A due timer ends before time advances.
      this.pass();
      return this.search({ path, after, ...more });
    }
    this.asked.push(path);
    const names = this.names(path);
    const rest = names.filter((name) => name > after);
    const page = rest.slice(0, limit);
    const stat = (of: string) => ({
      numChildren: this.names(of).length,
      mtime: of.length,
      ephemeralOwner: '0x0',
    });
    return {
      children: page.map((name) => ({
        name,
        stat: stat(path === '/' ? `/${name}` : `${path}/${name}`),
      })),
      more: rest.length > limit,
      ...(rest.length > limit ? { after: page.at(-1) } : {}),
      stat: stat(path),
    };
  }

  watch(request: WatchRequest) {
    this.watches.set(request.path, request);
    return () => this.watches.delete(request.path);
  }
}

const settle = () => new Promise((resolve) => setImmediate(resolve));

function begin(paths: string[]) {
  const fake = new Fake(paths);
  const model = new TreeModel(fake as unknown as Socket);
  return { fake, model, paths: () => model.rows.value.map(({ kind, path }) => `${kind} ${path}`) };
}

test('one request and one watch for each opened znode', async () => {
  const { fake, model, paths } = begin(['/a', '/a/b', '/a/b/c', '/ab', '/zookeeper']);
  model.open('/');
  await settle();
  model.open('/a');
  await settle();
  assert.deepEqual(fake.asked, ['/', '/a']);
  assert.deepEqual([...fake.watches.keys()], ['/', '/a']);
  assert.deepEqual(paths(), ['node /', 'node /a', 'node /a/b', 'node /ab']);
  model.close('/a');
  assert.deepEqual([...fake.watches.keys()], ['/']);
  model.system.value = true;
  assert.ok(rowOf(model.rows.value, '/zookeeper') > 0);
});

test('long lists are loaded page by page', async () => {
  const names = Array.from({ length: PAGE * 2 + 1 }, (_, at) => `/n${String(at).padStart(6, '0')}`);
  const { fake, model } = begin(names);
  model.open('/');
  await settle();
  assert.equal(model.rows.value.length, 1 + PAGE + 1);
  const more = model.rows.value.at(-1);
  assert.ok(more?.kind === 'more' && more.loaded === PAGE && more.total === names.length);
  await model.more('/');
  await model.more('/');
  await model.more('/');
  assert.equal(model.rows.value.length, 1 + names.length);
  assert.equal(fake.asked.length, 3);
});

test('a change of another client causes one request, and is marked', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout', 'Date'] });
  const { fake, model } = begin(['/a', '/b']);
  model.open('/');
  await settle();
  fake.paths.delete('/a');
  for (const name of ['/c', '/d']) {
    fake.paths.add(name);
    fake.watches
      .get('/')
      ?.onChange({ event: 'NodeChildrenChanged', path: '/', zxid: '0x1', end: true });
  }
  t.mock.timers.tick(2_000);
  await settle();
  assert.equal(fake.asked.length, 2);
  assert.deepEqual(
    model.rows.value.map((row) => [row.path, row.kind === 'node' && row.fresh]),
    [
      ['/', false],
      ['/b', false],
      ['/c', true],
      ['/d', true],
    ],
  );
});

test('a change during the load of a page is noticed, too', async () => {
  const { fake, model, paths } = begin(['/a']);
  model.open('/');
  await settle();
  const answer = Promise.withResolvers<void>();
  const { read } = fake;
  fake.read = async (...members) => {
    const page = await read.apply(fake, members);
    await answer.promise;
    return page;
  };
  const first = model.refresh('/');
  await settle();
  fake.paths.add('/b');
  const second = model.refresh('/');
  answer.resolve();
  await Promise.all([first, second]);
  assert.deepEqual(paths(), ['node /', 'node /a', 'node /b']);
});

test('a filter hides other znodes, except open ones', async () => {
  const { model, paths } = begin(['/apple', '/pear', '/pear/core', '/plum']);
  model.open('/');
  await settle();
  model.open('/pear');
  await settle();
  model.filter.value = 'PL';
  assert.deepEqual(paths(), ['node /', 'node /apple', 'node /pear', 'note /pear', 'node /plum']);
  model.filter.value = '';
  model.sort.value = 'mtime';
  assert.deepEqual(paths().slice(1), [
    'node /apple',
    'node /pear',
    'node /pear/core',
    'node /plum',
  ]);
  assert.equal(rowByName(model.rows.value, 'pl', 0), 4);
  assert.equal(rowByName(model.rows.value, 'x', 0), -1);
});

test('a filter searches unloaded children at the replica', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout', 'Date'] });
  const names = Array.from({ length: PAGE + 4 }, (_, at) => `/n${String(at).padStart(6, '0')}`);
  const { fake, model, paths } = begin(names);
  model.open('/');
  await settle();
  model.filter.value = '0005';
  assert.ok(paths().includes('note /'), 'it shows that there is more');
  t.mock.timers.tick(1_000);
  await settle();
  assert.ok(paths().includes('node /n000503'));
  assert.equal(fake.asked.length, 1, 'no further page is loaded');
  model.filter.value = 'none of them';
  t.mock.timers.tick(1_000);
  await settle();
  assert.deepEqual(paths().slice(1), ['note /'], 'all are searched');
  model.filter.value = '';
  assert.equal(model.rows.value.length, 1 + PAGE + 1);
});

const numbered = (count: number) =>
  Array.from({ length: count }, (_, at) => `/n${String(at).padStart(6, '0')}`);

test('a search ends after a second, and the next one continues there', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout', 'Date'] });
  const { fake, model, paths } = begin(numbered(PAGE + 4));
  model.open('/');
  await settle();
  fake.pass = () => t.mock.timers.tick(PART_MS / 2);
  model.filter.value = 'n00050';
  t.mock.timers.tick(SEEK_MS);
  await settle();
  assert.deepEqual(fake.sought, ['', '/n000098']);
  assert.deepEqual(paths().slice(1), ['more /']);
  await model.more('/');
  await model.more('/');
  assert.deepEqual(fake.sought.slice(2), ['/n000198', '/n000298', '/n000398', '/n000498']);
  assert.deepEqual(
    paths().slice(1),
    ['0', '1', '2', '3'].map((digit) => `node /n00050${digit}`),
  );
});

/** Opens three pages of a filter. */
async function beginFound(t: TestContext) {
  t.mock.timers.enable({ apis: ['setTimeout', 'Date'] });
  const names = numbered(4 * PAGE);
  const { fake, model, paths } = begin(names);
  model.open('/');
  await settle();
  model.filter.value = 'n';
  t.mock.timers.tick(SEEK_MS);
  await settle();
  await model.more('/');
  await model.more('/');
  const shown = paths().length;
  assert.ok(shown > 3 * PAGE && shown < names.length);
  const change = async () => {
    fake.watches
      .get('/')
      ?.onChange({ event: 'NodeChildrenChanged', path: '/', zxid: '0x1', end: true });
    t.mock.timers.tick(10_000);
    await settle();
  };
  const pass = async () => {
    t.mock.timers.tick(10_000);
    await settle();
  };
  return { fake, model, paths, shown, change, pass };
}

test('the results of a search stay when the children change', async (t) => {
  const { fake, paths, shown, change, pass } = await beginFound(t);
  fake.paths.delete('/n000007');
  fake.paths.add('/n000008x');
  fake.paths.delete('/n001400');
  await change();
  await pass();
  const now = paths();
  assert.ok(now.length >= shown - 1, `${now.length} of ${shown} rows`);
  assert.equal(now.at(-1), 'more /');
  assert.ok(!now.includes('node /n000007') && !now.includes('node /n001400'));
  assert.equal(now.indexOf('node /n000008x'), now.indexOf('node /n000008') + 1);
  assert.equal(new Set(now).size, now.length);
});

test('results are checked again in parts, and shown meanwhile', async (t) => {
  const { fake, model, paths, shown, change, pass } = await beginFound(t);
  fake.paths.delete('/n000007');
  fake.paths.delete('/n001400');
  fake.pass = () => t.mock.timers.tick(PART_MS / 2);
  await change();
  await pass();
  assert.ok(!paths().includes('node /n000007'));
  assert.ok(paths().includes('node /n001400'), 'not checked yet');
  const before = fake.sought.length;
  for (let part = 0; part < 20; part += 1) {
    await pass();
    assert.ok(paths().length >= shown - 2);
  }
  assert.ok(!paths().includes('node /n001400'));
  const all = fake.sought.length;
  assert.ok(all > before);
  await pass();
  assert.equal(fake.sought.length, all, 'it is complete');
  const loaded = paths().length;
  await model.more('/');
  assert.ok(paths().length > loaded, 'more of them follow the last one');
  assert.equal(new Set(paths()).size, paths().length);
});

test('several znodes are marked, and deleted ones lose their mark', async () => {
  const { fake, model } = begin(['/a', '/b', '/c', '/zookeeper']);
  model.system.value = true;
  model.open('/');
  await settle();
  model.mark('/a');
  model.mark('/');
  model.mark('/zookeeper');
  assert.deepEqual([...model.marked.value], ['/a']);
  assert.ok(model.marking.value);
  model.markRange('/c', '/b');
  assert.deepEqual([...model.marked.value], ['/a', '/b', '/c']);
  model.mark('/a');
  fake.paths.delete('/b');
  await model.refresh('/');
  assert.deepEqual([...model.marked.value], ['/c']);
  model.unmark();
  assert.ok(!model.marking.value && model.marked.value.size === 0);
});

test('only hidden system znodes are not shown as a filter without matches', async () => {
  const { model } = begin(['/zookeeper']);
  model.open('/');
  await settle();
  const note = () => model.rows.value.flatMap((row) => (row.kind === 'note' ? [row.note] : []));
  assert.deepEqual(note(), ['only_system']);
  model.filter.value = 'x';
  assert.deepEqual(note(), ['filtered']);
});
