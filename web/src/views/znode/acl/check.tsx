// The permissions of an identity here. The replica shows them to callers with the admin permission.

import { useSignal } from '@preact/signals';
import type { ApiError } from '../../../api/error';
import type { Perm } from '../../../api/types';
import { socket } from '../../../app/cluster';
import { visibleName } from '../../../format/text';
import { Button } from '../../../ui/button';
import { say } from './texts';
import { nameOf, rightsOf } from './words';

const SCHEMES = ['digest', 'ip', 'x509', 'world'] as const;
const EXAMPLES = { digest: 'alice', ip: '10.0.0.1', x509: 'CN=alice,O=Example', world: '' };

type Scheme = (typeof SCHEMES)[number];

interface Props {
  path: string;
  /** Answers are of this version of the ACL. */
  version: string;
  allowed: boolean;
}

interface Answer {
  version: string;
  who: string;
  perms?: Perm[];
  error?: ApiError;
}

export function Check({ path, version, allowed }: Props) {
  const scheme = useSignal<Scheme>('digest');
  const id = useSignal('');
  const answer = useSignal<Answer | undefined>(undefined);
  const needed = scheme.value !== 'world';
  const ask = async (event: Event) => {
    event.preventDefault();
    const name = needed ? id.peek().trim() : 'anyone';
    const who = needed ? visibleName(name) : say('everybody');
    const as = `${scheme.peek()}:${name}`;
    answer.value = await socket.read('getacl', { path, as }).then(
      ({ perms = [] }) => ({ version, who, perms }),
      (error: ApiError) => ({ version, who, error }),
    );
  };
  const shown = answer.value?.version === version ? answer.value : undefined;
  return (
    <form class="check-form" aria-label={say('check_title')} onSubmit={(event) => void ask(event)}>
      <h3>{say('check_title')}</h3>
      <div class="fields">
        <select
          aria-label={say('scheme')}
          value={scheme}
          onChange={(event) => {
            scheme.value = event.currentTarget.value as Scheme;
            answer.value = undefined;
          }}
        >
          {SCHEMES.map((one) => (
            <option key={one} value={one}>
              {say(`scheme_${one}`)}
            </option>
          ))}
        </select>
        {needed && (
          <input
            required
            autocomplete="off"
            spellcheck={false}
            aria-label={nameOf(scheme.value)}
            placeholder={EXAMPLES[scheme.value]}
            value={id}
            onInput={(event) => {
              id.value = event.currentTarget.value;
              answer.value = undefined;
            }}
          />
        )}
        <Button type="submit" reason={allowed ? undefined : say('check_why')}>
          {say('check')}
        </Button>
      </div>
      <p role="status" class={shown?.error ? 'wrong' : 'answer'}>
        {shown?.error?.message}
        {shown?.perms && (
          <bdi>{say('check_result', { who: shown.who, perms: rightsOf(shown.perms) })}</bdi>
        )}
      </p>
    </form>
  );
}
