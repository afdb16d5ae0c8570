// The tree on the page: rows that are seen, and the keys of a tree.

import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { isPattern } from '../../format/glob';
import { parentOf } from '../../format/path';
import { visibleName } from '../../format/text';
import { locale } from '../../i18n';
import { Icon } from '../../ui/icon';
import { type VirtualHandle, VirtualList } from '../../ui/virtual_list';
import { Markers } from './markers';
import { canBeMarked, type Note, type Row, rowByName, rowOf, type TreeModel } from './model';
import { say } from './texts';

const ROW_HEIGHT = 28;
const TYPED_MS = 600; // Letters of one name.

interface Props {
  model: TreeModel;
  /** The znode that is shown beside the tree. */
  selected: string;
  onSelect: (path: string) => void;
  /** What is to be deleted: all that is marked, or this one. */
  onDelete: (paths: string[]) => void;
  onCreate: (parent: string) => void;
}

export function Tree({ model, selected, onSelect, onDelete, onCreate }: Props) {
  const rows = model.rows.value;
  const active = useSignal(selected);
  const handle = useRef<VirtualHandle>(null);
  const typed = useRef({ text: '', at: 0 });
  const at = Math.max(0, rowOf(rows, active.value));
  /** As it is when a key comes, which may be before the last one is drawn. */
  const here = () => Math.max(0, rowOf(model.rows.peek(), active.peek()));

  useEffect(() => {
    active.value = selected;
  }, [selected]);
  const selectedAt = rowOf(rows, selected);
  useEffect(() => {
    if (selectedAt >= 0) {
      handle.current?.show(selectedAt);
    }
  }, [selected, selectedAt >= 0]);

  const go = (to: number) => {
    const row = model.rows.peek()[to];
    if (row?.kind === 'node') {
      active.value = row.path;
      handle.current?.show(to);
    }
  };
  /** Past rows that are no znodes. */
  const step = (by: 1 | -1) => {
    const all = model.rows.peek();
    let to = here() + by;
    while (all[to] && all[to]?.kind !== 'node') {
      to += by;
    }
    go(to);
  };
  const type = (event: KeyboardEvent) => {
    const fresh = event.timeStamp - typed.current.at > TYPED_MS;
    typed.current = { text: (fresh ? '' : typed.current.text) + event.key, at: event.timeStamp };
    go(rowByName(model.rows.peek(), typed.current.text, here() + (fresh ? 1 : 0)));
  };
  /** With Shift the arrows mark what they come by. */
  const stepAndMark = (by: 1 | -1) => {
    const from = active.peek();
    step(by);
    model.markRange(from, active.peek());
  };
  const pick = (event: MouseEvent, path: string) => {
    if (event.shiftKey) {
      model.markRange(active.peek(), path);
    } else if (event.ctrlKey || event.metaKey) {
      model.mark(path);
    } else {
      onSelect(path);
      return;
    }
    active.value = path;
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const all = model.rows.peek();
    const row = all[here()];
    if (row?.kind !== 'node' || event.ctrlKey || event.metaKey || event.altKey) {
      return;
    }
    const marked = model.marked.peek();
    const keys: Record<string, () => void> = {
      ArrowDown: () => (event.shiftKey ? stepAndMark(1) : step(1)),
      ArrowUp: () => (event.shiftKey ? stepAndMark(-1) : step(-1)),
      ArrowRight: () => (row.open ? step(1) : model.open(row.path)),
      ArrowLeft: () => (row.open ? model.close(row.path) : go(rowOf(all, parentOf(row.path)))),
      Home: () => go(0),
      End: () => go(all.findLastIndex(({ kind }) => kind === 'node')),
      Enter: () => onSelect(row.path),
      ' ': () => model.mark(row.path),
      Insert: () => onCreate(row.path),
      Delete: () => onDelete(marked.size > 0 ? [...marked] : [row.path]),
      ...(model.marking.peek() ? { Escape: () => model.unmark() } : {}),
    };
    const act = keys[event.key];
    if (act) {
      event.preventDefault();
      typed.current.text = '';
      act();
    } else if (event.key.length === 1 && !'/?'.includes(event.key)) {
      event.stopPropagation();
      type(event);
    }
  };
  /** Pages are loaded as one gets to their place. */
  const onSeen = (last: number) => {
    for (const row of rows.slice(Math.max(0, last - 40), last + 1)) {
      if (row.kind === 'more') {
        void model.more(row.path);
      }
    }
  };
  return (
    <VirtualList
      class="tree"
      role="tree"
      label={say('title')}
      count={rows.length}
      rowHeight={ROW_HEIGHT}
      active={`row-${at}`}
      handle={handle}
      onKeyDown={onKeyDown}
      onSeen={onSeen}
      row={(index) => {
        const row = rows[index];
        return (
          row && (
            <TreeRow
              key={`${row.kind} ${row.path}`}
              id={`row-${index}`}
              row={row}
              model={model}
              active={index === at}
              selected={row.path === selected}
              onPick={pick}
            />
          )
        );
      }}
    />
  );
}

interface RowProps {
  id: string;
  row: Row;
  model: TreeModel;
  active: boolean;
  selected: boolean;
  onPick: (event: MouseEvent, path: string) => void;
}

function TreeRow(props: RowProps) {
  const { row } = props;
  const indent = { paddingInlineStart: `${row.depth * 18 + 6}px` };
  if (row.kind === 'node') {
    return <NodeRow {...props} row={row} />;
  }
  return (
    <div class={`tree-row note ${row.kind}`} role="none" style={indent}>
      <OtherRow row={row} model={props.model} />
    </div>
  );
}

function OtherRow({ row, model }: { row: Exclude<Row, { kind: 'node' }>; model: TreeModel }) {
  switch (row.kind) {
    case 'note':
      return <span>{say(noteOf(row.note, model.filter.value))}</span>;
    case 'more':
      return (
        <button type="button" class="link" tabIndex={-1} onClick={() => void model.more(row.path)}>
          {say('more')}
          {row.total !== undefined && (
            <> ({say('loaded', { loaded: row.loaded, total: row.total })})</>
          )}
        </button>
      );
    case 'error':
      return (
        <>
          <Icon name="warning" />
          <span>{row.error.message}</span>
          <button
            type="button"
            class="link"
            tabIndex={-1}
            onClick={() => void model.refresh(row.path)}
          >
            {say('retry')}
          </button>
        </>
      );
  }
}

function noteOf(note: Note, filter: string): Parameters<typeof say>[0] {
  return note === 'filtered' && isPattern(filter) ? 'filtered_whole' : note;
}

function NodeRow({
  id,
  row,
  model,
  active,
  selected,
  onPick,
}: RowProps & { row: Extract<Row, { kind: 'node' }> }) {
  const { path, name, depth, entry, open, position, siblings } = row;
  const count = entry.stat?.numChildren ?? 0;
  const leaf = entry.stat?.numChildren === 0 && !open && path !== '/';
  const marking = model.marking.value;
  const marked = model.marked.value.has(path);
  const names = [
    'tree-row',
    marked && 'marked',
    active && 'active',
    selected && 'selected',
    row.fresh && 'fresh',
  ];
  return (
    <div
      id={id}
      class={names.filter(Boolean).join(' ')}
      role="treeitem"
      aria-level={depth + 1}
      aria-posinset={position}
      aria-setsize={siblings}
      aria-expanded={leaf ? undefined : open}
      aria-selected={selected}
      aria-checked={marking ? marked : undefined}
      style={{ paddingInlineStart: `${depth * 18 + 6}px` }}
      onClick={(event) => onPick(event, path)}
    >
      <span
        class={leaf ? 'twist leaf' : 'twist'}
        title={leaf ? undefined : open ? say('collapse') : say('expand')}
        onClick={(event) => {
          if (!leaf) {
            event.stopPropagation();
            model.toggle(path);
          }
        }}
      >
        {!leaf && <Icon name={open ? 'down' : 'right'} />}
      </span>
      {marking && (
        <span
          class={canBeMarked(path) ? 'tick' : 'tick none'}
          onClick={(event) => {
            event.stopPropagation();
            model.mark(path);
          }}
        >
          {marked && <Icon name="check" />}
        </span>
      )}
      <bdi class="name">{visibleName(name)}</bdi>
      <Markers entry={entry} />
      {count > 0 && (
        <span class="count" title={say('children', { count })}>
          {count.toLocaleString(locale())}
        </span>
      )}
    </div>
  );
}
