import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import type { ApiError } from '../../api/error';

interface State<T> {
  value?: T;
  error?: ApiError;
}

/** What a read has answered, repeated when `inputs` change, or by `again`; the old answer stays until
 * then. */
export function useRead<T>(
  read: () => Promise<T>,
  inputs: unknown[],
): State<T> & { again: () => void } {
  const state = useSignal<State<T>>({});
  const round = useSignal(0);
  useEffect(() => {
    let current = true;
    read().then(
      (value) => {
        if (current) {
          state.value = { value };
        }
      },
      (error: ApiError) => {
        if (current) {
          state.value = { error };
        }
      },
    );
    return () => {
      current = false;
    };
  }, [...inputs, round.value]);
  return {
    ...state.value,
    again: () => {
      round.value += 1;
    },
  };
}
