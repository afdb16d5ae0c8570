import { relativeTime } from '../format/time';
import { useNow } from './use_now';

/** "3 minutes ago", and later 4. */
export function Ago({ ms }: { ms: number }) {
  const now = useNow(); // May be a second old, and no change is of the future for that.
  return <>{relativeTime(ms, Math.max(now.value, Date.now()))}</>;
}
