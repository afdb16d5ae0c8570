import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import type { ApiError } from '../../api/error';

/** What a read has answered, asked anew when `inputs` change; the old answer stays until then. */
export function useRead<T>(read: () => Promise<T>, inputs: unknown[]) {
  const state = useSignal<{ value?: T; error?: ApiError }>({});
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
  }, inputs);
  return state.value;
}
