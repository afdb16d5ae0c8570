// All replicas, as the one that serves this page knows them: any one knows of all.

import { ensemble, status, trouble } from '../../app/cluster';
import { Failure, Loading } from '../../ui/state';
import { healthOf } from '../overview/health';
import { HealthSentence, Warnings } from '../overview/health_panel';
import { MemberCard } from './member';
import { say } from './texts';

export default function EnsembleView() {
  const all = ensemble.value;
  const one = status.value;
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
      <p class="hint">{say('seen_by', { id: all.seen_by })}</p>
      <div class="replicas">
        {all.members.map((member) => (
          <MemberCard
            key={member.id}
            member={member}
            newest={newest}
            leads={member.id === all.leader}
            serves={member.id === all.seen_by}
            seenBy={all.seen_by}
          />
        ))}
      </div>
    </div>
  );
}
