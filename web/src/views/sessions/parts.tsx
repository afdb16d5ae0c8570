// What of a session changes with time alone.

import type { ListedSession } from '../../api/types';
import { duration } from '../../format/time';
import { useNow } from '../../ui/use_now';
import { timeLeft } from './model';
import { say } from './texts';

interface Props {
  session: ListedSession;
  /** When this was so, by this browser's clock. */
  at: number;
}

export function Heard({ session, at }: Props) {
  const now = useNow();
  const { heard_ms: heard, heard_at: id } = session;
  if (heard === undefined || id === undefined) {
    return <span class="hint">{say('heard_none')}</span>;
  }
  const age = duration(heard + Math.max(0, now.value - at));
  return <span>{say('heard_ago', { age, id })}</span>;
}

export function Left({ session, at }: Props) {
  const now = useNow();
  const left = timeLeft(session, at, Math.max(now.value, at));
  if (left === undefined) {
    return <span class="hint">{say('heard_none')}</span>;
  }
  return left === 0 ? (
    <span class="dot warn">{say('left_over')}</span>
  ) : (
    <span>{duration(left)}</span>
  );
}
