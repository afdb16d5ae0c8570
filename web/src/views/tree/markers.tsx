import type { ChildEntry } from '../../api/types';
import { isEphemeral, isSequential } from '../../format/kind';
import { Icon, type IconName } from '../../ui/icon';
import { say } from './texts';

type MarkName = 'container' | 'ephemeral' | 'hidden' | 'sequential' | 'ttl';

function Mark({ name, icon }: { name: MarkName; icon: IconName }) {
  return (
    <span class={`mark ${name}`} title={say(name)}>
      <Icon name={icon} />
      <span class="sr-only">{say(name)}</span>
    </span>
  );
}

/** What is special about a znode, drawn and in words. */
export function Markers({ entry }: { entry: ChildEntry }) {
  return (
    <>
      {entry.stat && isEphemeral(entry.stat) && <Mark name="ephemeral" icon="bolt" />}
      {entry.stat?.container && <Mark name="container" icon="box" />}
      {entry.stat?.ttl !== undefined && <Mark name="ttl" icon="clock" />}
      {isSequential(entry.name) && <Mark name="sequential" icon="hash" />}
      {entry.hidden && <Mark name="hidden" icon="lock" />}
    </>
  );
}
