// How the ensemble is, in words.

import { condition } from '../../app/cluster';
import type { Condition } from '../../app/condition';
import { Docs } from '../../ui/docs';
import { Icon } from '../../ui/icon';
import type { Health, Warning } from './health';
import { say } from './texts';

interface Props {
  health: Health;
  leader: number;
  /** The replica that has said so. */
  seenBy: number;
}

/** What was said by a replica that is gone or late may not be so any more. */
function isOld(now: Condition): boolean {
  return now === 'stale' || now === 'reconnecting' || now === 'offline';
}

function sentenceOf({ health, leader, seenBy }: Props): string {
  const { level, voting, voters, quorum } = health;
  if (isOld(condition.value)) {
    return say('health_old', { id: seenBy });
  }
  if (voters === 0) {
    return say('health_outside', { id: seenBy });
  }
  if (level !== 'bad') {
    return say(`health_${level}`, { voting, voters, leader });
  }
  return leader === 0 || voting < quorum
    ? say('health_bad', { voting, voters, quorum })
    : say('health_bad_served', { voting, voters, leader });
}

export function HealthSentence(props: Props) {
  const { level: told } = props.health;
  const level = told === 'good' && isOld(condition.value) ? 'warn' : told;
  const text = sentenceOf(props);
  return (
    <p class={`health ${level}`} role="status">
      <Icon name={level === 'good' ? 'check' : 'warning'} />
      <span>{text}</span>
    </p>
  );
}

/** What is to be looked at, and where it is explained. */
export function Warnings({ warnings }: { warnings: Warning[] }) {
  if (warnings.length === 0) {
    return null;
  }
  return (
    <section class="panel" aria-labelledby="warnings">
      <header>
        <h2 id="warnings">{say('warnings')}</h2>
      </header>
      <ul class="warnings">
        {warnings.map(({ level, text, values, docs, section }) => (
          <li key={`${text} ${values['id'] ?? ''}`} class={level}>
            <Icon name={level === 'bad' ? 'warning' : 'info'} />
            <span>{say(text, values)}</span>
            <Docs page={docs} section={section} />
          </li>
        ))}
      </ul>
    </section>
  );
}
