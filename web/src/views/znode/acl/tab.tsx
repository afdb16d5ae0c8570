// The ACL of a znode: its entries, the permissions of an identity, and changing it.

import type { Signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { http, socket } from '../../../app/cluster';
import { identity } from '../../../app/identity';
import { Button } from '../../../ui/button';
import { Failure, Loading } from '../../../ui/state';
import { reasonFor } from '../change/rights';
import { useRead } from '../use_read';
import { Check } from './check';
import { AclEditor } from './editor';
import { AclDraft, isMasked, type SaveAcl } from './model';
import { say } from './texts';
import { AclTable } from './words';

interface Props {
  path: string;
  /** Changes with the ACL. */
  version: string;
  /** What is being changed, if anything is: it outlives this tab. */
  draft: Signal<AclDraft | undefined>;
  /** Other rights are there now: of that no watch tells. */
  onChanged: () => void;
}

const saveAcl: SaveAcl = (path, acl, { stat, aversion }, key) =>
  http.send('PATCH', '/znodes/v1', {
    query: { path },
    headers: {
      'Content-Type': 'application/json',
      'If-Match': `"a${stat.czxid.replace(/^0x/, '')}.${aversion}"`,
      'Idempotency-Key': key,
    },
    body: JSON.stringify({ acl }),
  });

export function AclTab({ path, version, draft, onChanged }: Props) {
  const { value, error, again } = useRead(
    () => socket.read('getacl', { path, perms: true }),
    [path, version, identity.value],
  );
  useEffect(() => {
    if (value) {
      draft.peek()?.observe(value);
    }
  }, [value]);
  const failure = error && <Failure error={error} onRetry={again} />;
  if (draft.value) {
    return (
      <>
        {failure}
        <AclEditor
          draft={draft.value}
          onEnd={() => {
            draft.value = undefined;
            again();
            onChanged();
          }}
        />
      </>
    );
  }
  if (!value) {
    return failure ?? <Loading />;
  }
  const masked = value.acl.some(isMasked);
  return (
    <>
      <div class="bar">
        <Button
          icon="edit"
          reason={reasonFor('admin', masked ? [] : value.perms)}
          onClick={() => {
            draft.value = new AclDraft(path, value, socket, saveAcl);
          }}
        >
          {say('edit')}
        </Button>
        <span class="hint">{say('this_only')}</span>
      </div>
      <AclTable entries={value.acl} />
      <Check
        path={path}
        version={`${value.stat.czxid}.${value.aversion}`}
        allowed={value.perms?.includes('admin') !== false}
      />
    </>
  );
}
