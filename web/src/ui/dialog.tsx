import type { ComponentChildren } from 'preact';
import { useId, useLayoutEffect, useRef } from 'preact/hooks';
import { Button } from './button';
import { say } from './texts';

interface Props {
  title: string;
  children: ComponentChildren;
  onClose: () => void;
}

/** Shown as long as it is rendered. Escape and the cross close it; the focus goes back where it was. */
export function Dialog({ title, children, onClose }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  // Before the next key: the page behind must not have it.
  useLayoutEffect(() => {
    const before = document.activeElement;
    const shown = dialog.current;
    shown?.showModal();
    return () => {
      shown?.close(); // Else nothing behind it takes the focus.
      if (before instanceof HTMLElement) {
        before.focus();
      }
    };
  }, []);
  return (
    <dialog
      ref={dialog}
      class="dialog"
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
    >
      <header>
        <h2 id={id}>{title}</h2>
        <Button kind="quiet" icon="close" label={say('close')} onClick={onClose} />
      </header>
      {children}
    </dialog>
  );
}
