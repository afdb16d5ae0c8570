// Deleting: says beforehand how much goes, and asks for more than a click when it is much.

import { useSignal } from '@preact/signals';
import { useEffect, useMemo } from 'preact/hooks';
import type { ApiError } from '../../../api/error';
import { socket } from '../../../app/cluster';
import { navigate, urlOf } from '../../../app/router';
import { Waiting } from '../../../app/waiting';
import { whyNoWrites } from '../../../app/writes';
import { isBelow, parentOf } from '../../../format/path';
import { visibleName } from '../../../format/text';
import { locale } from '../../../i18n';
import { Button } from '../../../ui/button';
import { Dialog } from '../../../ui/dialog';
import { Loading } from '../../../ui/state';
import { toast } from '../../../ui/toast';
import { useShown } from '../../../ui/use_shown';
import { type Chosen, type Counted, count, Deletion, MANY, topmost, total } from './deletion';
import { Said, sayLate } from './said';
import { say } from './texts';

const MAX = 10_000; // While the replica has not said its own limits.
const OPS_MAX = 1_000;
const SHOWN = 8; // Paths in the dialog.

interface Props {
  paths: string[];
  onClose: () => void;
  onDeleted: (paths: string[]) => void;
}

/** Where one goes whose znode has just been deleted. */
export function leaveDeleted(shown: string, deleted: string[]): void {
  const top = deleted.find((one) => shown === one || isBelow(shown, one));
  if (top !== undefined) {
    navigate(urlOf('tree', parentOf(top)), true);
  }
}

export function Delete({ paths, onClose, onDeleted }: Props) {
  const limits = socket.hello.value?.limits;
  const max = limits?.maxRecursive ?? MAX;
  const opsMax = limits?.maxMultiOps ?? OPS_MAX;
  const tops = useMemo(() => topmost(paths.map((path) => ({ path }))), [paths]);
  const many = tops.length > opsMax;
  const counted = useSignal<Counted[] | undefined>(undefined);
  const error = useSignal<ApiError | undefined>(undefined);
  const begin = async () => {
    error.value = undefined;
    counted.value = undefined;
    try {
      counted.value = await count(socket, await look(tops), max);
    } catch (problem) {
      error.value = problem as ApiError;
    }
  };
  useEffect(() => {
    if (!many) {
      void begin();
    }
  }, []);
  return (
    <Dialog title={say('delete_title')} onClose={onClose}>
      {counted.value ? (
        <Confirm
          key={counted.value}
          counted={counted.value}
          max={max}
          onAgain={() => void begin()}
          onClose={onClose}
          onDeleted={onDeleted}
        />
      ) : (
        !error.value &&
        !many && (
          <>
            <Loading />
            <p class="sr-only">{say('counting')}</p>
          </>
        )
      )}
      {many && <p role="alert">{say('too_many', { max: opsMax })}</p>}
      {error.value && <Said error={error.value} right="read" />}
    </Dialog>
  );
}

/** As they are now: what is shown may be older. */
async function look(tops: { path: string }[]): Promise<Chosen[]> {
  return Promise.all(
    tops.map(async ({ path }) => ({ path, stat: (await socket.read('stat', { path })).stat })),
  );
}

interface ConfirmProps {
  counted: Counted[];
  max: number;
  onAgain: () => void;
  onClose: () => void;
  onDeleted: (paths: string[]) => void;
}

const focus = (input: HTMLInputElement | null) => input?.focus();

function Confirm({ counted, max, onAgain, onClose, onDeleted }: ConfirmProps) {
  const deletion = useMemo(() => new Deletion(socket, counted), [counted]);
  const typed = useSignal('');
  const error = useSignal<ApiError | undefined>(undefined);
  const busy = useSignal(false);
  const shown = useShown();
  const all = total(counted);
  const many = all >= MANY;
  const reason = whyNot(all, max, busy.value, typed.value);
  const submit = async (event: Event) => {
    event.preventDefault();
    if (reason !== undefined || busy.peek()) {
      return;
    }
    busy.value = true;
    try {
      await deletion.run();
      const path = visibleName(counted[0]?.path ?? '');
      toast(all === 1 ? say('deleted_one', { path }) : say('deleted', { count: all }));
      if (shown.current) {
        onDeleted(counted.map(({ path: one }) => one));
      }
    } catch (problem) {
      error.value = problem as ApiError;
      if (!shown.current) {
        sayLate(counted[0]?.path ?? '', error.value);
      }
    }
    busy.value = false;
  };
  return (
    <form class="form" onSubmit={(event) => void submit(event)}>
      <Paths counted={counted} />
      <p>
        <strong>{say('count', { count: all })}</strong> {all > 1 && say('once')}
      </p>
      {many && all <= max && (
        <label>
          {say('confirm', { count: String(all) })}
          <input
            ref={focus}
            inputMode="numeric"
            autocomplete="off"
            value={typed}
            onInput={(event) => {
              typed.value = event.currentTarget.value;
            }}
          />
        </label>
      )}
      {error.value && <Said error={error.value} right="delete" />}
      {busy.value && <Waiting />}
      <footer>
        {error.value && error.value.outcome !== 'unknown' && (
          <Button onClick={onAgain}>{say('count_again')}</Button>
        )}
        <Button onClick={onClose}>{say('keep')}</Button>
        <Button kind="danger" type="submit" reason={reason}>
          {all === 1 ? say('delete') : say('delete_all', { count: all })}
        </Button>
      </footer>
    </form>
  );
}

function whyNot(all: number, max: number, busy: boolean, typed: string): string | undefined {
  if (all > max) {
    return say('too_many', { max });
  }
  if (busy) {
    return say('busy');
  }
  return all >= MANY && typed.trim() !== String(all)
    ? say('confirm', { count: String(all) })
    : whyNoWrites();
}

function Paths({ counted }: { counted: Counted[] }) {
  return (
    <ul class="paths">
      {counted.slice(0, SHOWN).map(({ path, count: below }) => (
        <li key={path}>
          <bdi>
            <code>{visibleName(path)}</code>
          </bdi>
          {below > 1 && (
            <span class="hint">{say('with_below', { count: below.toLocaleString(locale()) })}</span>
          )}
        </li>
      ))}
      {counted.length > SHOWN && (
        <li class="hint">{say('more_here', { count: counted.length - SHOWN })}</li>
      )}
    </ul>
  );
}
