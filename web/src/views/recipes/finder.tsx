// What to look at: directories whose names look like those of a recipe.

import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import type { ApiError } from '../../api/error';
import { Looks } from '../../api/looks';
import type { ChildEntry } from '../../api/types';
import { socket } from '../../app/cluster';
import { urlOf } from '../../app/router';
import { page } from '../../app/seen';
import { childOf, isSystem } from '../../format/path';
import { visibleName } from '../../format/text';
import { locale } from '../../i18n';
import { Empty, Failure, Loading } from '../../ui/state';
import { Table } from '../../ui/table';
import { FOLDERS, guess, type Kind } from './shape';
import { say } from './texts';

const LOOKED_MAX = 200; // Directories that are looked into, all in one request,
const NAMES = 8; // by so many of their names.
const PACE = { settle: 1_000, rest: 1_000 };

interface Found {
  path: string;
  children: number;
  kind: Kind | undefined;
}

interface Result {
  found: Found[];
  /** Children of the directory, when not all were looked into. */
  total: number;
}

async function childrenOf(paths: string[]): Promise<[string, ChildEntry][]> {
  const ops = paths.map((path) => ({ op: 'children', path, with: 'stat', limit: LOOKED_MAX }));
  const { results } = await socket.read('multi', { ops });
  return results.flatMap((one, at) =>
    one.ok
      ? (one.children ?? []).map((child): [string, ChildEntry] => [
          childOf(paths[at] ?? '/', child.name),
          child,
        ])
      : [],
  );
}

/** From the root the folders of the command line are looked into, too. */
async function find(path: string): Promise<Result> {
  const own = await childrenOf([path]);
  const inFolders = path === '/' ? await childrenOf(Object.keys(FOLDERS)) : [];
  const others = own.filter(([one]) => !isSystem(one) && !(one in FOLDERS));
  const all = [...inFolders, ...others];
  const looked = all.slice(0, LOOKED_MAX);
  if (looked.length === 0) {
    return { found: [], total: 0 };
  }
  const ops = looked.map(([one]) => ({ op: 'children', path: one, with: 'stat', limit: NAMES }));
  const { results } = await socket.read('multi', { ops });
  const found = results.map((one, at): Found => {
    const folder = looked[at]?.[0] ?? '/';
    if (!one.ok) {
      return { path: folder, children: looked[at]?.[1].stat?.numChildren ?? 0, kind: undefined };
    }
    const directory = { path: folder, stat: one.stat, text: undefined };
    const kind = guess({ ...directory, children: one.children ?? [] });
    return { path: folder, children: one.stat.numChildren, kind };
  });
  return { found, total: all.length };
}

function useFound(path: string) {
  const state = useSignal<{ result?: Result; error?: ApiError }>({});
  useEffect(() => {
    let current = true;
    const look = () =>
      find(path).then(
        (result) => {
          if (current) {
            state.value = { result };
          }
        },
        (error: ApiError) => {
          if (current) {
            state.value = { error };
          }
        },
      );
    const looks = new Looks(look, PACE, page);
    const soon = () => looks.soon();
    const unwatch = socket.watch({ path, kind: 'persistent', onChange: soon, onReset: soon });
    void look(); // Behind the watch.
    return () => {
      current = false;
      looks.stop();
      unwatch();
    };
  }, [path, state]);
  return state.value;
}

export function Finder({ path }: { path: string }) {
  const { result, error } = useFound(path);
  if (error) {
    return <Failure error={error} />;
  }
  if (!result) {
    return <Loading />;
  }
  const { found, total } = result;
  if (found.length === 0) {
    return <Empty>{say('find_none_children')}</Empty>;
  }
  const known = found.filter(({ kind }) => kind);
  const rows = [...known, ...found.filter(({ kind }) => !kind)];
  return (
    <section class="panel" aria-labelledby="find">
      <header>
        <h2 id="find">{say('find')}</h2>
      </header>
      <p class="hint recipe-note">{known.length > 0 ? say('find_hint') : say('find_none')}</p>
      <FoundTable rows={rows} />
      {found.length < total && (
        <p class="hint recipe-note">{say('find_many', { shown: found.length, total })}</p>
      )}
    </section>
  );
}

function FoundTable({ rows }: { rows: Found[] }) {
  return (
    <Table
      caption={say('find')}
      rows={rows}
      keyOf={({ path }) => path}
      columns={[
        {
          name: 'path',
          title: say('find_name'),
          cell: ({ path }) => (
            <a href={urlOf('recipes', path)}>
              <bdi>{visibleName(path)}</bdi>
            </a>
          ),
        },
        {
          name: 'kind',
          title: say('find_kind'),
          cell: ({ kind }) =>
            kind ? say(`kind_${kind}`) : <span class="hint">{say('kind_none')}</span>,
        },
        {
          name: 'children',
          title: say('find_size'),
          numeric: true,
          cell: ({ children }) => children.toLocaleString(locale()),
        },
      ]}
    />
  );
}
