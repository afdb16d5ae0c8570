import { Button } from './button';
import { say } from './texts';
import { toast } from './toast';

/** Puts `text` into the clipboard. */
export function Copy({ text, label = say('copy') }: { text: string; label?: string }) {
  const copy = () =>
    navigator.clipboard.writeText(text).then(
      () => toast(say('copied')),
      () => toast(say('copy_failed'), true),
    );
  return <Button kind="quiet" icon="copy" label={label} onClick={() => void copy()} />;
}
