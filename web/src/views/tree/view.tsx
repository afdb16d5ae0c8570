// The tree, and beside it the znode that is chosen in it. The URL names that znode.

import { useSignal } from '@preact/signals';
import { useEffect, useMemo } from 'preact/hooks';
import { socket } from '../../app/cluster';
import { identity } from '../../app/identity';
import { navigate, route, urlOf } from '../../app/router';
import { page } from '../../app/seen';
import { ancestorsOf } from '../../format/path';
import { Button } from '../../ui/button';
import { toast } from '../../ui/toast';
import { Create } from '../znode/change/create';
import { Delete, leaveDeleted } from '../znode/change/delete';
import { reasonFor } from '../znode/change/rights';
import { Znode } from '../znode/znode';
import { Bookmarks, Marked } from './marked';
import { type Sort, TreeModel } from './model';
import { say } from './texts';
import { Tree } from './tree';

export default function TreeView() {
  const model = useMemo(() => new TreeModel(socket, page), []);
  const { path } = route.value;
  useEffect(() => () => model.stop(), [model]);
  useEffect(() => model.refreshAll(), [model, identity.value]); // Another identity may see more.
  useEffect(() => {
    for (const one of path === '/' ? ['/'] : ancestorsOf(path).slice(0, -1)) {
      model.open(one);
    }
  }, [model, path]);
  const creating = useSignal<string | undefined>(undefined);
  const deleting = useSignal<string[]>([]);
  const end = () => {
    creating.value = undefined;
    deleting.value = [];
  };
  return (
    <div class="split">
      <h1 class="sr-only">{say('title')}</h1>
      <section class="split-side" aria-label={say('title')}>
        <Bar model={model} />
        <Bookmarks selected={path} />
        <Tree
          model={model}
          selected={path}
          onSelect={(one) => navigate(urlOf('tree', one, tabOf()))}
          onDelete={(paths) => {
            deleting.value = isRefused() ? [] : paths.filter((one) => one !== '/');
          }}
          onCreate={(parent) => {
            creating.value = isRefused() ? undefined : parent;
          }}
        />
        <Marked
          model={model}
          onDelete={() => {
            deleting.value = [...model.marked.peek()];
          }}
        />
      </section>
      <section class="split-main" aria-label={path}>
        <Znode key={path} path={path} />
      </section>
      {creating.value !== undefined && (
        <Create
          parent={creating.value}
          onClose={end}
          onCreated={(one) => {
            end();
            navigate(urlOf('tree', one));
          }}
        />
      )}
      {deleting.value.length > 0 && (
        <Delete
          paths={deleting.value}
          onClose={end}
          onDeleted={(paths) => {
            end();
            model.unmark();
            leaveDeleted(path, paths);
          }}
        />
      )}
    </div>
  );
}

/** Keys are not disabled: they say why nothing comes of them. */
function isRefused(): boolean {
  const reason = reasonFor('write', undefined);
  if (reason !== undefined) {
    toast(reason, true);
  }
  return reason !== undefined;
}

/** A user that views the stat of one znode wants that of the next, too. */
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
        icon="marks"
        label={say('marking')}
        pressed={model.marking.value}
        onClick={() => {
          if (model.marking.peek()) {
            model.unmark();
          } else {
            model.marking.value = true;
          }
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
