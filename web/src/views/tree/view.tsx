// The tree, and beside it the znode that is chosen in it. The URL names that znode.

import { useEffect, useMemo } from 'preact/hooks';
import { socket } from '../../app/cluster';
import { identity } from '../../app/identity';
import { navigate, route, urlOf } from '../../app/router';
import { ancestorsOf } from '../../format/path';
import { Button } from '../../ui/button';
import { Znode } from '../znode/znode';
import { type Sort, TreeModel } from './model';
import { say } from './texts';
import { Tree } from './tree';

export default function TreeView() {
  const model = useMemo(() => new TreeModel(socket), []);
  const { path } = route.value;
  useEffect(() => () => model.stop(), [model]);
  useEffect(() => model.refreshAll(), [model, identity.value]); // Who else may see more.
  useEffect(() => {
    for (const one of path === '/' ? ['/'] : ancestorsOf(path).slice(0, -1)) {
      model.open(one);
    }
  }, [model, path]);
  return (
    <div class="split">
      <h1 class="sr-only">{say('title')}</h1>
      <section class="split-side" aria-label={say('title')}>
        <Bar model={model} />
        <Tree
          model={model}
          selected={path}
          onSelect={(one) => navigate(urlOf('tree', one, tabOf()))}
        />
      </section>
      <section class="split-main" aria-label={path}>
        <Znode key={path} path={path} />
      </section>
    </div>
  );
}

/** Who looks at the stat of one znode wants that of the next, too. */
function tabOf(): Record<string, string> {
  const tab = route.value.query.get('tab');
  return tab ? { tab } : {};
}

const SORTS: Sort[] = ['name', 'mtime', 'ctime', 'size', 'children'];

function Bar({ model }: { model: TreeModel }) {
  return (
    <div class="bar">
      <input
        type="search"
        data-filter
        aria-label={say('filter')}
        placeholder={say('filter')}
        value={model.filter}
        onInput={(event) => {
          model.filter.value = event.currentTarget.value;
        }}
      />
      <select
        aria-label={say('sort')}
        value={model.sort}
        onChange={(event) => {
          model.sort.value = event.currentTarget.value as Sort;
        }}
      >
        {SORTS.map((sort) => (
          <option key={sort} value={sort}>
            {say(`sort_${sort}`)}
          </option>
        ))}
      </select>
      <Button
        kind="quiet"
        icon="tools"
        label={say('system')}
        pressed={model.system.value}
        onClick={() => {
          model.system.value = !model.system.value;
        }}
      />
      <Button
        kind="quiet"
        icon="refresh"
        label={say('refresh')}
        onClick={() => model.refreshAll()}
      />
    </div>
  );
}
