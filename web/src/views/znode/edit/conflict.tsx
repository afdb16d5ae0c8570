// What others have done while one was writing, and the choice between theirs and mine.

import type { ComponentChildren } from 'preact';
import { ApiError } from '../../../api/error';
import { condition } from '../../../app/cluster';
import { byteSize } from '../../../format/bytes';
import { isEphemeral } from '../../../format/kind';
import { relativeTime } from '../../../format/time';
import { Button } from '../../../ui/button';
import { Icon } from '../../../ui/icon';
import { Hex } from '../data';
import { textOf } from './convert';
import type { Draft, Seen } from './draft';
import { say } from './texts';

interface Props {
  draft: Draft;
  onSave: () => void;
}

/** Nothing, as long as no other client has changed the znode. */
export function Meanwhile({ draft, onSave }: Props) {
  const theirs = draft.theirs.value;
  const phase = draft.phase.value;
  if (phase === 'unknown') {
    return <Unknown draft={draft} onSave={onSave} />;
  }
  if (phase === 'saving') {
    return <Saving />;
  }
  if (theirs === 'gone') {
    return (
      <Notice>
        {say('gone')} {isEphemeral(draft.base.value.stat) && say('was_ephemeral')}{' '}
        {!draft.acl && say('acl_unknown')}
      </Notice>
    );
  }
  return theirs ? <Conflict draft={draft} theirs={theirs} /> : null;
}

/** What becomes of a save that waits: it is asked again with the same key. */
function Saving() {
  switch (condition.value) {
    case 'live':
    case 'read_only':
      return null;
    case 'no_quorum':
      return <Notice>{say('saving_no_quorum')}</Notice>;
    case 'stale':
      return <Notice>{say('saving_stale')}</Notice>;
    default:
      return <Notice>{say('saving_lost')}</Notice>;
  }
}

function Notice({ children }: { children: ComponentChildren }) {
  return (
    <div class="banner resyncing meanwhile" role="alert">
      <Icon name="warning" />
      {children}
    </div>
  );
}

function Unknown({ draft, onSave }: { draft: Draft; onSave: () => void }) {
  const problem = draft.problem.value;
  return (
    <Notice>
      {condition.value === 'no_quorum'
        ? say('unknown_no_quorum')
        : say('unknown', { detail: problem instanceof ApiError ? problem.message : '' })}
      <Button onClick={onSave}>{say('ask_again')}</Button>
    </Notice>
  );
}

interface ConflictProps {
  draft: Draft;
  theirs: Seen;
}

function Conflict({ draft, theirs: { stat, bytes } }: ConflictProps) {
  const again = stat.czxid !== draft.base.value.stat.czxid;
  const text = isText(draft) && textOf(draft.form.value, bytes) !== undefined;
  const merging = draft.merging.value;
  const what = {
    version: stat.version,
    time: relativeTime(stat.mtime),
    size: byteSize(bytes.length),
  };
  return (
    <Notice>
      <span class="grow">
        {say(again ? 'changed_again' : 'changed', what)}{' '}
        {merging ? mergeHint(draft) : say('conflict')}
      </span>
      <span class="choices">
        {merging ? (
          <Button onClick={() => setMerging(draft, false)}>{say('compare_end')}</Button>
        ) : (
          <>
            {text && <Button onClick={() => setMerging(draft, true)}>{say('compare')}</Button>}
            <Button onClick={() => draft.keepMine()}>{say('keep_mine')}</Button>
            <Button onClick={() => draft.takeTheirs()}>{say('take_theirs')}</Button>
          </>
        )}
      </span>
    </Notice>
  );
}

function mergeHint({ choices }: Draft): string {
  return choices.value > 0 ? say('merge_hint', { count: choices.value }) : say('merge_done');
}

function isText(draft: Draft): boolean {
  return draft.form.value === 'text' || draft.form.value === 'json';
}

function setMerging(draft: Draft, on: boolean): void {
  draft.merging.value = on;
}

/** What cannot be merged is shown beside each other. */
export function Both({ draft }: { draft: Draft }) {
  const theirs = draft.theirs.value;
  if (
    !theirs ||
    theirs === 'gone' ||
    (isText(draft) && textOf('text', theirs.bytes) !== undefined)
  ) {
    return null;
  }
  const mine = draft.mine();
  return (
    <div class="both" role="group" aria-label={say('both')}>
      <section>
        <h3>{say('theirs')}</h3>
        <Hex bytes={theirs.bytes} label={say('theirs')} />
      </section>
      {typeof mine !== 'string' && (
        <section>
          <h3>{say('mine')}</h3>
          <Hex bytes={mine} label={say('mine')} />
        </section>
      )}
    </div>
  );
}
