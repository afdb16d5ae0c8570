import type { ComponentChildren } from 'preact';
import { Icon, type IconName } from './icon';
import { Tooltip } from './tooltip';

interface Props {
  children?: ComponentChildren;
  icon?: IconName;
  /** What it does, where there is nothing but an icon. */
  label?: string;
  kind?: 'plain' | 'primary' | 'danger' | 'quiet';
  type?: 'button' | 'submit';
  pressed?: boolean;
  /** Why it cannot be used now; undefined: it can. */
  reason?: string | undefined;
  onClick?: () => void;
}

/** One that cannot be used keeps its place in the order of focus, and says why. */
export function Button({
  children,
  icon,
  label,
  kind = 'plain',
  type = 'button',
  pressed,
  reason,
  onClick,
}: Props) {
  const button = (
    <button
      type={type}
      class={`button ${kind}`}
      aria-label={label}
      aria-pressed={pressed}
      aria-disabled={reason !== undefined}
      onClick={(event) => {
        if (reason !== undefined) {
          event.preventDefault();
        } else {
          onClick?.();
        }
      }}
    >
      {icon && <Icon name={icon} />}
      {children}
    </button>
  );
  const tip = reason ?? label;
  return tip ? <Tooltip text={tip}>{button}</Tooltip> : button;
}
