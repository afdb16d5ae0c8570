import type { ApiError } from '../../../api/error';
import type { Perm } from '../../../api/types';
import { visibleName } from '../../../format/text';
import { Failure } from '../../../ui/state';
import { toast } from '../../../ui/toast';
import { say } from './texts';

/** For a user that has not waited for the answer. */
export function sayLate(path: string, { message, outcome }: ApiError): void {
  const values = { path: visibleName(path), detail: message };
  toast(say(outcome === 'unknown' ? 'late_unknown' : 'late_failed', values), true);
}

/** What a replica has answered to a write, and whether it was done. */
export function Said({ error, right }: { error: ApiError; right: Perm }) {
  return (
    <div class="said">
      <Failure error={error} right={right} />
      <p class="hint">{say(error.outcome === 'unknown' ? 'outcome_unknown' : 'outcome_none')}</p>
    </div>
  );
}
