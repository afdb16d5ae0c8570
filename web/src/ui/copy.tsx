import { Button } from './button';
import { say } from './texts';
import { toast } from './toast';

/** Browsers have a clipboard only where the page came by https or from this very machine; elsewhere a
 * selection is copied, as they have always done. */
async function write(text: string): Promise<void> {
  if (navigator.clipboard) {
    return navigator.clipboard.writeText(text);
  }
  const before = document.activeElement;
  const area = document.createElement('textarea');
  area.className = 'sr-only';
  area.value = text;
  (document.querySelector('dialog[open]') ?? document.body).append(area);
  area.select();
  const done = document.execCommand('copy');
  area.remove();
  if (before instanceof HTMLElement) {
    before.focus();
  }
  if (!done) {
    throw new Error('the clipboard is closed');
  }
}

/** Puts `text` into the clipboard, and says whether it is there. */
export function copyText(text: string): Promise<void> {
  return write(text).then(
    () => toast(say('copied')),
    () => toast(say('copy_failed'), true),
  );
}

export function Copy({ text, label = say('copy') }: { text: string; label?: string }) {
  return <Button kind="quiet" icon="copy" label={label} onClick={() => void copyText(text)} />;
}
