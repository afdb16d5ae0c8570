// What can be done with all that is marked in the tree, and the bookmarks above it.

import { urlOf } from '../../app/router';
import { visibleName } from '../../format/text';
import { Button } from '../../ui/button';
import { copyText } from '../../ui/copy';
import { reasonFor } from '../znode/change/rights';
import { bookmarks } from './bookmarks';
import type { TreeModel } from './model';
import { say } from './texts';

export function Bookmarks({ selected }: { selected: string }) {
  if (bookmarks.value.length === 0) {
    return null;
  }
  return (
    <details class="bookmarks">
      <summary>
        {say('bookmarks')} <span class="count">{bookmarks.value.length}</span>
      </summary>
      <ul>
        {bookmarks.value.map((path) => (
          <li key={path}>
            <a href={urlOf('tree', path)} aria-current={path === selected ? 'page' : undefined}>
              <bdi>{visibleName(path)}</bdi>
            </a>
          </li>
        ))}
      </ul>
    </details>
  );
}

interface Props {
  model: TreeModel;
  onDelete: () => void;
}

export function Marked({ model, onDelete }: Props) {
  const count = model.marked.value.size;
  if (!model.marking.value) {
    return null;
  }
  const reason = count === 0 ? say('mark_none') : reasonFor('delete', undefined);
  return (
    <div class="bar marked" role="group" aria-label={say('marked_group')}>
      <span role="status">{say('marked', { count })}</span>
      <span class="spacer" />
      <Button
        kind="quiet"
        icon="copy"
        label={say('mark_copy')}
        reason={count === 0 ? say('mark_none') : undefined}
        onClick={() => void copyText([...model.marked.peek()].join('\n'))}
      />
      <Button kind="quiet" icon="close" label={say('mark_end')} onClick={() => model.unmark()} />
      <Button kind="danger" icon="trash" reason={reason} onClick={onDelete}>
        {say('delete')}
      </Button>
    </div>
  );
}
