// One more entry of an ACL.

import { useSignal } from '@preact/signals';
import { useId } from 'preact/hooks';
import { whoami } from '../../../app/cluster';
import { fromBase64Text } from '../../../format/bytes';
import { Button } from '../../../ui/button';
import { type AclDraft, digestId, type Entry } from './model';
import { say } from './texts';
import { nameOf } from './words';

const SCHEMES = ['world', 'auth', 'digest', 'ip', 'x509'] as const;
const HASH_BYTES = 20;

type Scheme = (typeof SCHEMES)[number];

/** `user:hash`, or a user and a password to hash; undefined: what is behind the colon is no hash. */
function userId(user: string, password: string): string | undefined {
  const colon = user.indexOf(':');
  if (colon < 0) {
    return digestId(user, password);
  }
  return fromBase64Text(user.slice(colon + 1))?.length === HASH_BYTES ? user : undefined;
}

export function AddEntry({ draft }: { draft: AclDraft }) {
  const error = useId();
  const scheme = useSignal<Scheme>('digest');
  const id = useSignal('');
  const password = useSignal('');
  const wrong = useSignal<string | undefined>(undefined);
  const known = whoami.value?.authenticated === true;
  const label = nameOf(scheme.value);
  const entry = (): Entry | undefined => {
    const name = id.peek().trim();
    const ids = {
      world: () => 'anyone',
      auth: () => '',
      ip: () => name,
      x509: () => name,
      digest: () => userId(name, password.peek()),
    };
    const found = ids[scheme.peek()]();
    return found === undefined ? undefined : { scheme: scheme.peek(), id: found, perms: ['read'] };
  };
  const submit = (event: Event) => {
    event.preventDefault();
    const added = entry();
    if (!added) {
      wrong.value = say('hash_bad');
    } else if (draft.add(added)) {
      id.value = '';
      password.value = '';
      wrong.value = undefined;
    } else {
      wrong.value = say('entry_there');
    }
  };
  return (
    <form class="check-form" aria-label={say('add_title')} onSubmit={submit}>
      <h3>{say('add_title')}</h3>
      <div class="fields">
        <select
          aria-label={say('scheme')}
          value={scheme}
          onChange={(event) => {
            scheme.value = event.currentTarget.value as Scheme;
            wrong.value = undefined;
          }}
        >
          {SCHEMES.map((one) => (
            <option key={one} value={one} disabled={one === 'auth' && !known}>
              {one === 'auth' && !known
                ? `${say('scheme_auth')} (${say('me_hint')})`
                : say(`scheme_${one}`)}
            </option>
          ))}
        </select>
        {label !== undefined && (
          <input
            required
            autocomplete="off"
            spellcheck={false}
            aria-label={label}
            aria-describedby={error}
            placeholder={label}
            value={id}
            onInput={(event) => {
              id.value = event.currentTarget.value;
            }}
          />
        )}
        {scheme.value === 'digest' && (
          <input
            type="password"
            autocomplete="new-password"
            required={!id.value.includes(':')}
            disabled={id.value.includes(':')}
            aria-label={say('password')}
            placeholder={say('password')}
            value={password}
            onInput={(event) => {
              password.value = event.currentTarget.value;
            }}
          />
        )}
        <Button type="submit" icon="plus">
          {say('add')}
        </Button>
      </div>
      <p id={error} role="alert" class="wrong">
        {wrong.value}
      </p>
      {scheme.value === 'digest' && <p class="hint">{say('hash_hint')}</p>}
    </form>
  );
}
