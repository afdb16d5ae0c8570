// The user of the page: sent to the replica with each connection, stored only where stated.

import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import type { Identity, Whoami } from '../api/types';
import { visibleName } from '../format/text';
import { Button } from '../ui/button';
import { Dialog } from '../ui/dialog';
import { Failure } from '../ui/state';
import { toast } from '../ui/toast';
import { socket, whoami } from './cluster';
import { identity, signIn, signOut } from './identity';
import { say } from './texts';

export function Login({ onClose }: { onClose: () => void }) {
  const asking = useSignal(false);
  const refused = socket.refused.value;
  const user = identity.value?.user;
  const accepted = user !== undefined && whoami.value !== undefined && !refused;
  useEffect(() => {
    if (asking.peek() && (accepted || refused)) {
      asking.value = false;
      if (accepted) {
        toast(say('signed_in', { user }));
        onClose();
      }
    }
  }, [accepted, refused]);
  return (
    <Dialog title={user && !refused ? visibleName(user) : say('sign_in')} onClose={onClose}>
      {user && !asking.value && !refused ? (
        <SignedIn onClose={onClose} />
      ) : (
        <Form
          asking={asking.value}
          onSubmit={(found, remember) => {
            asking.value = true;
            signIn(found, remember);
          }}
        />
      )}
      {refused && <Failure error={refused} />}
    </Dialog>
  );
}

interface FormProps {
  asking: boolean;
  onSubmit: (found: { user: string; password: string }, remember: boolean) => void;
}

function Form({ asking, onSubmit }: FormProps) {
  const user = useSignal(identity.value?.user ?? '');
  const password = useSignal('');
  const remember = useSignal(false);
  return (
    <form
      class="form"
      onSubmit={(event) => {
        event.preventDefault();
        onSubmit({ user: user.value, password: password.value }, remember.value);
      }}
    >
      <label>
        {say('user')}
        <input
          autofocus
          required
          autocomplete="username"
          pattern="[^:]+"
          value={user}
          onInput={(event) => {
            user.value = event.currentTarget.value;
          }}
        />
      </label>
      <label>
        {say('password')}
        <input
          type="password"
          autocomplete="current-password"
          value={password}
          onInput={(event) => {
            password.value = event.currentTarget.value;
          }}
        />
      </label>
      <label class="check">
        <input
          type="checkbox"
          checked={remember}
          onChange={(event) => {
            remember.value = event.currentTarget.checked;
          }}
        />
        {say('remember')}
      </label>
      <p class="hint">{say('sign_in_hint')}</p>
      <footer>
        <Button kind="primary" type="submit" reason={asking ? say('sign_in_asking') : undefined}>
          {say('sign_in')}
        </Button>
      </footer>
    </form>
  );
}

function wordsOf({ scheme, id }: Identity): string {
  switch (scheme) {
    case 'world':
      return say('who_anyone');
    case 'ip':
      return say('who_address', { id });
    case 'digest':
      return say('who_user', { user: visibleName(id.slice(0, id.lastIndexOf(':'))) });
    case 'x509':
      return say('who_certificate', { name: visibleName(id) });
    default:
      return say('who_other', { scheme, id: visibleName(id) });
  }
}

/** The identities that the replica reports. */
function SignedIn({ onClose }: { onClose: () => void }) {
  const known: Whoami | undefined = whoami.value;
  return (
    <div class="form">
      {known ? (
        <>
          <p>{say('signed_in_as')}</p>
          <ul class="identities">
            {known.super && (
              <li>
                <strong>{say('who_super')}</strong>
              </li>
            )}
            {known.ids.map((one) => (
              <li key={`${one.scheme}:${one.id}`}>
                {wordsOf(one)} <code class="hint">{visibleName(`${one.scheme}:${one.id}`)}</code>
              </li>
            ))}
          </ul>
        </>
      ) : (
        <p class="hint">{say('who_unknown')}</p>
      )}
      <footer>
        <Button
          kind="primary"
          onClick={() => {
            signOut();
            toast(say('signed_out'));
            onClose();
          }}
        >
          {say('sign_out')}
        </Button>
      </footer>
    </div>
  );
}
