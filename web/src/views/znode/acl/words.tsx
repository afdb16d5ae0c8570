import type { Perm } from '../../../api/types';
import { visibleName } from '../../../format/text';
import { Icon } from '../../../ui/icon';
import { Table } from '../../../ui/table';
import { type Entry, keyOf, PERMS } from './model';
import { say } from './texts';

/** The identity of an entry, without the hash, which means nothing to people. */
export function whoOf({ scheme, id }: Pick<Entry, 'scheme' | 'id'>): string {
  switch (scheme) {
    case 'world':
      return say('everybody');
    case 'auth':
      return say('me');
    case 'digest':
      return say('user_named', { user: visibleName(id.slice(0, id.lastIndexOf(':'))) });
    case 'ip':
      return say('network', { address: id });
    case 'x509':
      return say('certificate', { name: visibleName(id) });
  }
}

/** The label of the field with an identity, where a scheme has one. */
const NAMES = { digest: 'user', ip: 'address', x509: 'subject' } as const;

/** What to enter for an identity of a scheme; undefined: nothing. */
export function nameOf(scheme: Entry['scheme']): string | undefined {
  return scheme in NAMES ? say(NAMES[scheme as keyof typeof NAMES]) : undefined;
}

/** Rights in words, as a list. */
export function rightsOf(perms: Perm[]): string {
  return perms.length === 0 ? say('check_none') : perms.map((perm) => say(perm)).join(', ');
}

export function Who({ entry }: { entry: Pick<Entry, 'scheme' | 'id'> }) {
  return (
    <span class="acl-who">
      <bdi>{whoOf(entry)}</bdi> <code class="hint">{entry.scheme}</code>
    </span>
  );
}

/** Two entries may mean the same: ACLs of others are what they are. */
export function placeOf(entry: Entry & { at: number }): string {
  return `${entry.at} ${keyOf(entry)}`;
}

/** The entries, read-only. */
export function AclTable({ entries }: { entries: Entry[] }) {
  return (
    <Table
      caption={say('caption')}
      rows={entries.map((entry, at) => ({ ...entry, at }))}
      keyOf={placeOf}
      columns={[
        { name: 'who', title: say('scheme'), cell: (entry) => <Who entry={entry} /> },
        ...PERMS.map((perm) => ({
          name: perm,
          title: say(perm),
          cell: ({ perms }: Entry) =>
            perms.includes(perm) ? (
              <span class="granted">
                <Icon name="check" />
                <span class="sr-only">{say(perm)}</span>
              </span>
            ) : (
              <span class="hint" aria-hidden="true">
                –
              </span>
            ),
        })),
      ]}
    />
  );
}
