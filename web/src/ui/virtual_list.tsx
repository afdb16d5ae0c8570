// Long lists: only the rows that are seen are there. All rows have one height.

import type { AriaRole, ComponentChildren, RefObject } from 'preact';
import { useEffect, useImperativeHandle, useRef, useState } from 'preact/hooks';

const OVERSCAN = 8; // Rows above and below what is seen.

export interface VirtualHandle {
  show(row: number): void;
  focus(): void;
}

interface Props {
  role: AriaRole;
  class: string;
  onKeyDown?: (event: KeyboardEvent) => void;
  count: number;
  rowHeight: number;
  label: string;
  /** The element that has the focus within, for screen readers. */
  active?: string | undefined;
  row: (at: number) => ComponentChildren;
  /** The last row that is seen, whenever that changes. */
  onSeen?: (last: number) => void;
  handle?: RefObject<VirtualHandle | null>;
}

export function VirtualList({
  count,
  rowHeight,
  label,
  active,
  row,
  onSeen,
  handle,
  ...rest
}: Props) {
  const box = useRef<HTMLDivElement>(null);
  const [seen, setSeen] = useState({ top: 0, height: 600 });
  useEffect(() => {
    const element = box.current;
    if (!element) {
      return;
    }
    const measure = () => setSeen({ top: element.scrollTop, height: element.clientHeight });
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    element.addEventListener('scroll', measure, { passive: true });
    return () => {
      observer.disconnect();
      element.removeEventListener('scroll', measure);
    };
  }, []);
  const first = Math.max(0, Math.floor(seen.top / rowHeight) - OVERSCAN);
  const last = Math.min(count, Math.ceil((seen.top + seen.height) / rowHeight) + OVERSCAN);
  useEffect(() => onSeen?.(last - 1), [last, count]);
  useImperativeHandle(handle ?? null, () => ({
    focus: () => box.current?.focus(),
    show: (at: number) => {
      const element = box.current;
      if (element && at * rowHeight < element.scrollTop) {
        element.scrollTop = at * rowHeight;
      } else if (element && (at + 1) * rowHeight > element.scrollTop + element.clientHeight) {
        element.scrollTop = (at + 1) * rowHeight - element.clientHeight;
      }
    },
  }));
  const rows = Array.from({ length: Math.max(0, last - first) }, (_, at) => row(first + at));
  return (
    <div
      {...rest}
      ref={box}
      class={`virtual ${rest.class}`}
      tabIndex={0}
      aria-label={label}
      aria-activedescendant={active}
    >
      <div class="virtual-all" role="presentation" style={{ height: `${count * rowHeight}px` }}>
        <div
          class="virtual-seen"
          role="presentation"
          style={{ transform: `translateY(${first * rowHeight}px)` }}
        >
          {rows}
        </div>
      </div>
    </div>
  );
}
