import type { RefObject } from 'preact';
import { useEffect, useRef } from 'preact/hooks';

/** Whether the component is still there: what comes late must not lead elsewhere who has gone on. */
export function useShown(): RefObject<boolean> {
  const shown = useRef(true);
  useEffect(() => {
    shown.current = true;
    return () => {
      shown.current = false;
    };
  }, []);
  return shown;
}
