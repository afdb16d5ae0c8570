import { useId } from 'preact/hooks';
import { say } from './texts';

/** The top of the subtree. */
export function PathField({ path }: { path: string }) {
  const hint = useId();
  return (
    <label>
      {say('path')}
      <input
        name="path"
        class="path-input"
        required
        spellcheck={false}
        autocomplete="off"
        defaultValue={path}
        aria-describedby={hint}
      />
      <span class="hint" id={hint}>
        {say('path_hint')}
      </span>
    </label>
  );
}

/** What was typed into a field of this form. */
export function typed(form: HTMLFormElement, name: string): string {
  const value = new FormData(form).get(name);
  return typeof value === 'string' ? value : '';
}

/** What stands in a field: blanks around it are a slip, unless it was there before. */
export function meant(form: HTMLFormElement, name: string): string {
  const field = form.elements.namedItem(name);
  const known = field instanceof HTMLInputElement ? field.defaultValue : '';
  const text = typed(form, name);
  return text === known ? text : text.trim();
}

/** With the slash before it that one may forget, and without the one behind. */
export function typedPath(form: HTMLFormElement): string {
  const names = meant(form, 'path')
    .split('/')
    .filter((name) => name !== '');
  return `/${names.join('/')}`;
}
