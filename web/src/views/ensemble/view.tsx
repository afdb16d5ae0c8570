// All replicas, as the one that serves this page knows them: any one knows of all.

import { useSignal } from '@preact/signals';
import { ensemble, status, trouble } from '../../app/cluster';
import { isOutside } from '../../app/condition';
import { Failure, Loading } from '../../ui/state';
import { healthOf } from '../overview/health';
import { HealthSentence, Warnings } from '../overview/health_panel';
import { ChangeDialog, type What } from './change/dialog';
import { MemberCard } from './member';
import { Members } from './members';
import { say } from './texts';

export default function EnsembleView() {
  const all = ensemble.value;
  const one = status.value;
  const changed = useSignal<What | undefined>(undefined);
  const change = (what: What) => {
    changed.value = what;
  };
  if (!all || !one) {
    return trouble.value ? <Failure error={trouble.value} /> : <Loading />;
  }
  const health = healthOf(all, one);
  const newest = all.members.find(({ id }) => id === all.leader)?.zxid;
  return (
    <div class="page ensemble">
      <h1 class="sr-only">{say('title')}</h1>
      <HealthSentence health={health} leader={all.leader} seenBy={all.seen_by} />
      <Warnings warnings={health.warnings} />
      {!isOutside(all) && <Members all={all} onChange={change} />}
      <p class="hint">{say('seen_by', { id: all.seen_by })}</p>
      <div class="replicas">
        {all.members.map((member) => (
          <MemberCard
            key={member.id}
            member={member}
            newest={newest}
            leads={member.id === all.leader}
            serves={member.id === all.seen_by}
            all={all}
            onChange={change}
          />
        ))}
      </div>
      {changed.value && (
        <ChangeDialog
          what={changed.value}
          onClose={() => {
            changed.value = undefined;
          }}
        />
      )}
    </div>
  );
}
