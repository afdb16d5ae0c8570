// What is asked again and again while it is seen: never twice at a time, not while the page is hidden or
// its replica lost.

import { type Signal, useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import type { ApiError } from '../api/error';
import { socket } from '../app/cluster';

export interface Live<T> {
  value?: T;
  error?: ApiError;
}

/** The newest answer of `ask`, every `ms`; starts again when `inputs` change. `again` asks at once. */
export function useLive<T>(
  ask: () => Promise<T>,
  ms: number,
  inputs: unknown[],
): { live: Signal<Live<T>>; again: () => void } {
  const live = useSignal<Live<T>>({});
  const current = useSignal<() => void>(() => undefined);
  useEffect(() => {
    let ended = false;
    let asking = false;
    live.value = {};
    const look = async () => {
      if (asking) {
        return;
      }
      asking = true;
      const next: Live<T> = await ask().then(
        (value) => ({ value }),
        (error: ApiError) => ({ ...live.peek(), error }),
      );
      asking = false;
      if (!ended) {
        live.value = next;
      }
    };
    current.value = () => void look();
    void look();
    const timer = setInterval(() => {
      if (!document.hidden && socket.link.peek() === 'live') {
        void look();
      }
    }, ms);
    return () => {
      ended = true;
      clearInterval(timer);
    };
  }, inputs);
  return { live, again: () => current.peek()() };
}
