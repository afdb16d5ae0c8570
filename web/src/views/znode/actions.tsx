// What can be done with the znode that is shown: by button, and by key.

import { type Signal, useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import type { Perm } from '../../api/types';
import { socket } from '../../app/cluster';
import { identity } from '../../app/identity';
import { useShortcuts } from '../../app/keyboard';
import { navigate, urlOf } from '../../app/router';
import { parentOf } from '../../format/path';
import { Button } from '../../ui/button';
import { toast } from '../../ui/toast';
import { Create } from './change/create';
import { Delete, leaveDeleted } from './change/delete';
import { reasonFor } from './change/rights';
import { say as sayChange } from './change/texts';
import { say } from './texts';

/** They cannot be deleted. */
const BUILT_IN = ['/', '/zookeeper', '/zookeeper/quota', '/zookeeper/config'];

export type Open = 'create' | 'delete' | undefined;

interface Props {
  path: string;
  perms: Perm[] | undefined;
  /** The dialog that is open. */
  open: Signal<Open>;
  onEdit: () => void;
}

export function Actions({ path, perms, open, onEdit }: Props) {
  const reasons = {
    edit: reasonFor('write', perms),
    create: reasonFor('create', perms),
    delete: useDeleteReason(path),
  };
  const act = {
    edit: onEdit,
    create: () => {
      open.value = 'create';
    },
    delete: () => {
      open.value = 'delete';
    },
  };
  /** A key is not disabled: it says why nothing comes of it. */
  const byKey = (name: keyof typeof act) => () => {
    const reason = reasons[name];
    if (reason === undefined) {
      act[name]();
    } else {
      toast(reason, true);
    }
  };
  useShortcuts(
    [
      { key: 'e', text: () => say('key_edit'), act: byKey('edit') },
      { key: 'c', text: () => say('key_create'), act: byKey('create') },
      { key: 'd', text: () => say('key_delete'), act: byKey('delete') },
    ],
    [path, reasons.edit, reasons.create, reasons.delete],
  );
  const close = () => {
    open.value = undefined;
  };
  return (
    <div class="actions">
      <Button icon="edit" reason={reasons.edit} onClick={act.edit}>
        {say('edit')}
      </Button>
      <Button icon="plus" reason={reasons.create} onClick={act.create}>
        {say('create_child')}
      </Button>
      <span class="apart">
        <Button kind="danger" icon="trash" reason={reasons.delete} onClick={act.delete}>
          {say('delete')}
        </Button>
      </span>
      {open.value === 'create' && (
        <Create
          parent={path}
          onClose={close}
          onCreated={(one) => {
            close();
            navigate(urlOf('tree', one));
          }}
        />
      )}
      {open.value === 'delete' && (
        <Delete
          paths={[path]}
          onClose={close}
          onDeleted={(paths) => {
            close();
            leaveDeleted(path, paths);
          }}
        />
      )}
    </div>
  );
}

/** The right to delete is one of the parent. */
function useDeleteReason(path: string): string | undefined {
  const perms = useSignal<Perm[] | undefined>(undefined);
  useEffect(() => {
    let current = true;
    perms.value = undefined;
    socket.read('stat', { path: parentOf(path), perms: true }).then(
      (reply) => {
        if (current) {
          perms.value = reply.perms;
        }
      },
      () => undefined, // Then the server says it.
    );
    return () => {
      current = false;
    };
  }, [path, identity.value]);
  return BUILT_IN.includes(path) ? sayChange('system') : reasonFor('delete', perms.value);
}
