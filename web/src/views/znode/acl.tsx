import type { AclEntry, Perm } from '../../api/types';
import { socket } from '../../app/cluster';
import { visibleName } from '../../format/text';
import { Icon } from '../../ui/icon';
import { Failure, Loading } from '../../ui/state';
import { Table } from '../../ui/table';
import { say } from './texts';
import { useRead } from './use_read';

const PERMS: Perm[] = ['read', 'write', 'create', 'delete', 'admin'];

/** The hash of a password says nothing to people. */
function whoOf({ scheme, id }: AclEntry): string {
  switch (scheme) {
    case 'world':
      return say('acl_everybody');
    case 'digest':
      return say('acl_user', { user: visibleName(id.slice(0, id.lastIndexOf(':'))) });
    case 'ip':
      return say('acl_address', { address: id });
  }
}

/** `version` changes with the ACL. */
export function AclTab({ path, version }: { path: string; version: number }) {
  const { value, error } = useRead(() => socket.read('getacl', { path }), [path, version]);
  if (error) {
    return <Failure error={error} />;
  }
  if (!value) {
    return <Loading />;
  }
  return (
    <>
      <Table
        caption={say('acl_caption')}
        rows={value.acl}
        keyOf={({ scheme, id }) => `${scheme}:${id}`}
        columns={[
          {
            name: 'who',
            title: say('acl_who'),
            cell: (entry) => (
              <>
                {whoOf(entry)} <code class="hint">{entry.scheme}</code>
              </>
            ),
          },
          ...PERMS.map((perm) => ({
            name: perm,
            title: say(`perm_${perm}`),
            cell: ({ perms }: AclEntry) =>
              perms.includes(perm) ? (
                <span class="granted">
                  <Icon name="check" />
                  <span class="sr-only">{say(`perm_${perm}`)}</span>
                </span>
              ) : (
                <span class="hint" aria-hidden="true">
                  –
                </span>
              ),
          })),
        ]}
      />
      <p class="hint">{say('acl_not_inherited')}</p>
    </>
  );
}
