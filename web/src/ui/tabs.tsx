import type { ComponentChildren } from 'preact';
import { useId, useRef } from 'preact/hooks';
import { locale } from '../i18n';

interface Props<T extends string> {
  label: string;
  tabs: { name: T; title: string; count?: number }[];
  selected: T;
  onSelect: (name: T) => void;
  children: ComponentChildren;
}

/** Arrows, Home and End move between the tabs; what is chosen is shown at once. */
export function Tabs<T extends string>({ label, tabs, selected, onSelect, children }: Props<T>) {
  const id = useId();
  const list = useRef<HTMLDivElement>(null);
  const move = (to: number) => {
    const tab = tabs[(to + tabs.length) % tabs.length];
    if (tab) {
      onSelect(tab.name);
      list.current?.querySelector<HTMLElement>(`[data-tab="${tab.name}"]`)?.focus();
    }
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const at = tabs.findIndex(({ name }) => name === selected);
    const target = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[
      event.key
    ];
    if (target !== undefined) {
      event.preventDefault();
      move(target);
    }
  };
  return (
    <div class="tabs">
      <div ref={list} class="tab-list" role="tablist" aria-label={label} onKeyDown={onKeyDown}>
        {tabs.map(({ name, title, count }) => (
          <button
            key={name}
            type="button"
            role="tab"
            id={`${id}-${name}`}
            data-tab={name}
            aria-selected={name === selected}
            aria-controls={name === selected ? `${id}-panel` : undefined}
            tabIndex={name === selected ? 0 : -1}
            onClick={() => onSelect(name)}
          >
            {title}
            {count !== undefined && <span class="count">{count.toLocaleString(locale())}</span>}
          </button>
        ))}
      </div>
      <div
        class="tab-panel"
        role="tabpanel"
        id={`${id}-panel`}
        aria-labelledby={`${id}-${selected}`}
        tabIndex={0}
      >
        {children}
      </div>
    </div>
  );
}
