// Changing an ACL: rights as boxes with words, entries that come and go, and a warning to a user that is
// about to shut himself out.

import { useSignal } from '@preact/signals';
import { whoami } from '../../../app/cluster';
import { Button } from '../../../ui/button';
import { Table } from '../../../ui/table';
import { toast } from '../../../ui/toast';
import { reasonFor } from '../change/rights';
import { Said } from '../change/said';
import { AddEntry } from './add';
import { type AclDraft, type Entry, PERMS } from './model';
import { say } from './texts';
import { AclTable, placeOf, rightsOf, Who, whoOf } from './words';

interface Props {
  draft: AclDraft;
  onEnd: () => void;
}

export function AclEditor({ draft, onEnd }: Props) {
  const knows = useSignal(false);
  const lost = whoami.value ? draft.lost(whoami.value) : [];
  const reason = whyNot(draft, lost.includes('admin') && !knows.value);
  const save = async () => {
    if (await draft.save()) {
      toast(say('saved'));
      onEnd();
    }
  };
  return (
    <>
      <div class="bar acl-edit">
        <span class="hint">{say('this_only')}</span>
        <span class="spacer" />
        <Button onClick={onEnd}>{say(draft.dirty.value ? 'discard' : 'cancel')}</Button>
        <Button kind="primary" reason={reason} onClick={() => void save()}>
          {say('save')}
        </Button>
      </div>
      <Theirs draft={draft} />
      {lost.length > 0 && (
        <div class="banner resyncing meanwhile" role="alert">
          {say('lost', { perms: rightsOf(lost) })}
          {lost.includes('admin') && (
            <>
              <strong>{say('lost_admin')}</strong>
              <label class="check">
                <input
                  type="checkbox"
                  checked={knows}
                  onChange={(event) => {
                    knows.value = event.currentTarget.checked;
                  }}
                />
                {say('lost_anyway')}
              </label>
            </>
          )}
        </div>
      )}
      {draft.problem.value && <Said error={draft.problem.value} right="admin" />}
      <fieldset class="whole" disabled={draft.busy.value}>
        <Entries draft={draft} />
        <AddEntry draft={draft} />
      </fieldset>
    </>
  );
}

/** undefined: it can be saved. */
function whyNot(draft: AclDraft, shutsOut: boolean): string | undefined {
  if (draft.busy.value) {
    return say('busy');
  }
  if (draft.theirs.value) {
    return say('conflict');
  }
  if (!draft.entries.value.some(({ perms }) => perms.length > 0)) {
    return say('empty');
  }
  if (!draft.dirty.value) {
    return say('nothing_new');
  }
  return shutsOut ? say('lost_admin') : reasonFor('admin', undefined);
}

function Theirs({ draft }: { draft: AclDraft }) {
  const theirs = draft.theirs.value;
  return theirs ? (
    <>
      <div class="banner resyncing meanwhile" role="alert">
        <span class="grow">{say('conflict')}</span>
        <span class="choices">
          <Button onClick={() => draft.keepMine()}>{say('keep_mine')}</Button>
          <Button onClick={() => draft.takeTheirs()}>{say('take_theirs')}</Button>
        </span>
      </div>
      <AclTable entries={theirs.acl} />
    </>
  ) : null;
}

type Row = Entry & { at: number };

function Entries({ draft }: { draft: AclDraft }) {
  return (
    <Table
      caption={say('caption')}
      rows={draft.entries.value.map((entry, at) => ({ ...entry, at }))}
      keyOf={placeOf}
      columns={[
        { name: 'who', title: say('scheme'), cell: (entry) => <Who entry={entry} /> },
        ...PERMS.map((perm) => ({
          name: perm,
          title: say(perm),
          cell: (row: Row) => (
            <input
              type="checkbox"
              aria-label={`${whoOf(row)}: ${say(perm)}`}
              checked={row.perms.includes(perm)}
              onChange={() => draft.toggle(row.at, perm)}
            />
          ),
        })),
        {
          name: 'remove',
          title: '',
          cell: (row) => (
            <Button
              kind="quiet"
              icon="trash"
              label={say('remove', { who: whoOf(row) })}
              onClick={() => draft.remove(row.at)}
            />
          ),
        },
      ]}
    />
  );
}
