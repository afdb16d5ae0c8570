// What stands where there is nothing to show: it is on its way, there is none, or something is wrong.

import type { ComponentChildren } from 'preact';
import { ApiError } from '../api/error';
import type { Perm } from '../api/types';
import { identity, loginOpen } from '../app/identity';
import { visibleText } from '../format/text';
import { Button } from './button';
import { Icon, type IconName } from './icon';
import { say } from './texts';

export function Loading() {
  return (
    <p class="state" role="status">
      <span class="spinner" aria-hidden="true" />
      {say('loading')}
    </p>
  );
}

export function Empty({
  icon = 'info',
  children,
}: {
  icon?: IconName;
  children: ComponentChildren;
}) {
  return (
    <p class="state">
      <Icon name={icon} />
      {children}
    </p>
  );
}

interface FailureProps {
  error: unknown;
  /** What the operation needed. */
  right?: Perm;
  onRetry?: () => void;
}

/** Which right is missing, or what the replica says. */
export function Failure({ error, right = 'read', onRetry }: FailureProps) {
  const code = error instanceof ApiError ? error.code : '';
  const missing = code === 'NoAuth';
  const user = identity.value?.user;
  return (
    <div class="state failure" role="alert">
      <Icon name={missing ? 'lock' : 'warning'} />
      <div>
        <strong>
          {missing ? say('no_auth', { right: say(`right_${right}`) }) : code || say('failed')}
        </strong>
        <p>{visibleText(error instanceof Error ? error.message : String(error))}</p>
        {missing && <p>{user ? say('no_auth_as', { user }) : say('no_auth_nobody')}</p>}
      </div>
      {missing && (
        <Button
          icon="user"
          onClick={() => {
            loginOpen.value = true;
          }}
        >
          {say('sign_in')}
        </Button>
      )}
      {onRetry && (
        <Button icon="refresh" onClick={onRetry}>
          {say('retry')}
        </Button>
      )}
    </div>
  );
}
