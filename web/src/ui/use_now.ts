import { type Signal, useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';

const TICK_MS = 1_000;

/** The time, each second while the page is seen. */
export function useNow(): Signal<number> {
  const now = useSignal(Date.now());
  useEffect(() => {
    const timer = setInterval(() => {
      if (!document.hidden) {
        now.value = Date.now();
      }
    }, TICK_MS);
    return () => clearInterval(timer);
  }, [now]);
  return now;
}
