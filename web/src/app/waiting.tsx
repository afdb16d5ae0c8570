// What becomes of a write that waits for its answer while the replicas cannot do it.

import { Icon } from '../ui/icon';
import { condition } from './cluster';
import { say } from './texts';

/** Nothing, as long as the answer comes soon. */
export function Waiting() {
  const now = condition.value;
  return now === 'live' || now === 'read_only' ? null : (
    <p class="banner resyncing" role="alert">
      <Icon name="warning" />
      <span>{say(`waiting_${now}`)}</span>
    </p>
  );
}
