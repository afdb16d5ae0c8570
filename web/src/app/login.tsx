import { useSignal } from '@preact/signals';
import { Button } from '../ui/button';
import { Dialog } from '../ui/dialog';
import { identity, signIn, signOut } from './identity';
import { say } from './texts';

/** Who is looking: shown to the replica with each connection, kept nowhere else but where said. */
export function Login({ onClose }: { onClose: () => void }) {
  const user = useSignal(identity.value?.user ?? '');
  const password = useSignal('');
  const remember = useSignal(false);
  const submit = (event: Event) => {
    event.preventDefault();
    signIn({ user: user.value, password: password.value }, remember.value);
    onClose();
  };
  return (
    <Dialog title={say('sign_in')} onClose={onClose}>
      <form class="form" onSubmit={submit}>
        <label>
          {say('user')}
          <input
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
          {identity.value && (
            <Button
              onClick={() => {
                signOut();
                onClose();
              }}
            >
              {say('sign_out')}
            </Button>
          )}
          <Button kind="primary" type="submit">
            {say('sign_in')}
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}
