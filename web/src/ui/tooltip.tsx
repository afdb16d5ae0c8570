import { cloneElement, type VNode } from 'preact';
import { useId, useState } from 'preact/hooks';

/** A few words about what is inside, on hover and when the focus is seen there; Escape takes them away. */
export function Tooltip({ text, children }: { text: string; children: VNode }) {
  const id = useId();
  const [open, setOpen] = useState(false);
  return (
    <span
      class="tooltip"
      onMouseEnter={() => setOpen(true)}
      onMouseLeave={() => setOpen(false)}
      onFocusIn={({ target }) =>
        setOpen(target instanceof Element && target.matches(':focus-visible'))
      }
      onFocusOut={() => setOpen(false)}
      onKeyDown={(event) => event.key === 'Escape' && setOpen(false)}
    >
      {cloneElement(children, { 'aria-describedby': open ? id : undefined })}
      {open && (
        <span class="tooltip-text" role="tooltip" id={id}>
          {text}
        </span>
      )}
    </span>
  );
}
