// How the ensemble is, in words.

import { Docs } from '../../ui/docs';
import { Icon } from '../../ui/icon';
import type { Health, Warning } from './health';
import { say } from './texts';

export function HealthSentence({ health, leader }: { health: Health; leader: number }) {
  const { level, voting, voters, quorum } = health;
  const text =
    level === 'bad'
      ? leader === 0 || voting < quorum
        ? say('health_bad', { voting, voters, quorum })
        : say('health_bad_served', { voting, voters, leader })
      : say(`health_${level}`, { voting, voters, leader });
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
