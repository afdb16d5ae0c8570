// Pieces of which the drawings are made.

import type { Signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { createContext } from 'preact';
import { useContext } from 'preact/hooks';
import type { Stat } from '../../api/types';
import { urlOf } from '../../app/router';
import { isEphemeral } from '../../format/kind';
import { nameOf } from '../../format/path';
import { visibleName } from '../../format/text';
import { duration, localTime } from '../../format/time';
import { Icon, type IconName } from '../../ui/icon';
import type { Picture, RecipeModel } from './model';
import { labelOf } from './shape';
import { say } from './texts';

export interface Scene {
  picture: Picture;
  texts: RecipeModel['texts'];
  now: Signal<number>;
}

export const SceneContext = createContext<Scene | undefined>(undefined);

export function useScene(): Scene {
  const scene = useContext(SceneContext);
  if (!scene) {
    throw new Error('drawn outside of a scene');
  }
  return scene;
}

/** The state in one sentence, announced to screen readers when it changes. */
export function Sentence({ icon, children }: { icon: IconName; children: ComponentChildren }) {
  return (
    <p class="recipe-sentence" role="status">
      <Icon name={icon} />
      <span>{children}</span>
    </p>
  );
}

/** What it is called by people. */
export function useLabel(path: string): string {
  return labelOf(path, useScene().texts.value.get(path)?.text);
}

export function Age({ ms }: { ms: number }) {
  const { now } = useScene();
  return (
    <time dateTime={new Date(ms).toISOString()} title={say('since', { time: localTime(ms) })}>
      {say('age', { age: duration(Math.max(0, now.value - ms)) })}
    </time>
  );
}

export function ZnodeLink({ path, children }: { path: string; children?: ComponentChildren }) {
  return (
    <a href={urlOf('tree', path)}>
      <bdi>{children ?? visibleName(nameOf(path))}</bdi>
    </a>
  );
}

export function SessionLink({ stat }: { stat: Stat }) {
  return isEphemeral(stat) ? (
    <a href={urlOf('sessions', `/${stat.ephemeralOwner}`)}>
      {say('session', { id: stat.ephemeralOwner })}
    </a>
  ) : null;
}

interface FactsProps {
  path: string;
  stat?: Stat | undefined;
  fence?: boolean | undefined;
  named?: boolean;
}

/** The facts about a member's znode; with its name, unless that is shown already. */
export function Facts({ path, stat, fence, named }: FactsProps) {
  return (
    <span class="recipe-facts">
      {!named && <ZnodeLink path={path} />}
      {stat && <SessionLink stat={stat} />}
      {stat && <Age ms={stat.ctime} />}
      {stat && fence && (
        <span title={say('fence_hint', { zxid: stat.czxid })}>
          {say('fence', { fence: BigInt(stat.czxid).toString() })}
        </span>
      )}
    </span>
  );
}

/** When there are more than are drawn. */
export function Cut({ shown, total }: { shown: number; total: number }) {
  return shown < total ? <p class="hint recipe-note">{say('all_of', { shown, total })}</p> : null;
}
