import type { RefObject } from 'preact';
import { useEffect, useRef } from 'preact/hooks';

/** Whether the component is still shown: a late answer must not navigate a user that has left it. */
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
