// Where to go, by what one types: a path, with the names that there are; a view; what can be done.

import { type Signal, useSignal } from '@preact/signals';
import { useEffect, useId } from 'preact/hooks';
import { childOf } from '../format/path';
import { visibleName } from '../format/text';
import { language } from '../i18n';
import { Dialog } from '../ui/dialog';
import { views } from '../views';
import { bookmarks } from '../views/tree/bookmarks';
import { socket } from './cluster';
import { identity, loginOpen, signOut } from './identity';
import { helpOpen, paletteOpen, shortcuts } from './keyboard';
import { fitting, type Item, SHOWN, typedPath } from './palette_items';
import { navigate, route, urlOf } from './router';
import { say } from './texts';
import { nextTheme, theme } from './theme';

const TOOLS = ['search', 'export', 'import'] as const;
const PAUSE_MS = 120; // After a letter, before names are asked for.

function close(): void {
  paletteOpen.value = false;
}

function toZnode(path: string): Item {
  return {
    key: `znode ${path}`,
    text: visibleName(path),
    kind: say('go_znode'),
    act: () => navigate(urlOf('tree', path)),
  };
}

function actions(): Item[] {
  const action = (key: string, text: string, act: () => void): Item => ({
    key,
    text,
    kind: say('action'),
    act,
  });
  return [
    ...shortcuts.value.map(({ key, text, act }) => action(`key ${key}`, text(), act)),
    identity.value
      ? action('sign out', say('sign_out'), signOut)
      : action('sign in', say('sign_in'), () => {
          loginOpen.value = true;
        }),
    action('theme', say(theme.value), nextTheme),
    action('language', say('language'), () => {
      language.value = language.value === 'en' ? 'zh' : 'en';
    }),
    action('docs', say('docs'), () => {
      open('/ui/docs/README.html', '_blank', 'noreferrer');
    }),
    action('help', say('help'), () => {
      helpOpen.value = true;
    }),
  ];
}

function known(): Item[] {
  const toViews = views.map(({ name, title }): Item => {
    return {
      key: `view ${name}`,
      text: title(),
      kind: say('go_view'),
      act: () => navigate(urlOf(name)),
    };
  });
  const { view, path } = route.value;
  const top = view === 'tree' || view === 'recipes' ? path : '/';
  const toTools = TOOLS.map((tool): Item => {
    return {
      key: `tool ${tool}`,
      text: say(`go_${tool}`, { path: visibleName(top) }),
      kind: say('action'),
      act: () => navigate(urlOf('tools', top, { tool })),
    };
  });
  const marked = bookmarks.value.map((path): Item => {
    return { ...toZnode(path), key: `bookmark ${path}`, kind: say('bookmark') };
  });
  return [...toViews, ...marked, ...toTools, ...actions()];
}

/** Names below a path that begin as it was typed; asked for when one stops typing. */
function useNames(typed: string): Signal<string[]> {
  const names = useSignal<string[]>([]);
  useEffect(() => {
    const path = typedPath(typed);
    names.value = [];
    if (!path) {
      return;
    }
    const { parent, start } = path;
    let current = true;
    const timer = setTimeout(async () => {
      const after = start === '' ? {} : { after: start };
      const reply = await socket
        .read('children', { path: parent, limit: SHOWN, ...after })
        .catch(() => undefined);
      const found = (reply?.children ?? []) as unknown as string[];
      if (current) {
        names.value = found
          .filter((name) => name.startsWith(start))
          .map((name) => childOf(parent, name));
      }
    }, PAUSE_MS);
    return () => {
      current = false;
      clearTimeout(timer);
    };
  }, [typed]);
  return names;
}

function useItems(typed: string): Item[] {
  const names = useNames(typed);
  const path = typedPath(typed);
  if (!path) {
    return fitting(known(), typed).slice(0, SHOWN);
  }
  const whole = path.start === '' ? path.parent : childOf(path.parent, path.start);
  return [whole, ...names.value].slice(0, SHOWN).map(toZnode);
}

export function Palette() {
  const typed = useSignal('');
  const at = useSignal(0);
  const id = useId();
  const items = useItems(typed.value);
  const active = Math.min(at.value, items.length - 1);
  useEffect(() => {
    document.getElementById(`${id}-${active}`)?.scrollIntoView({ block: 'nearest' });
  }, [id, active]);
  const go = (item: Item | undefined) => {
    if (item) {
      close();
      item.act();
    }
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (by !== undefined) {
      event.preventDefault();
      at.value = (active + by + items.length) % Math.max(1, items.length);
    } else if (event.key === 'Enter' && !event.isComposing) {
      event.preventDefault();
      go(items[active]);
    }
  };
  return (
    <Dialog title={say('go')} onClose={close}>
      <input
        autofocus
        class="palette-input"
        role="combobox"
        aria-label={say('go')}
        aria-expanded={items.length > 0}
        aria-controls={id}
        aria-autocomplete="list"
        aria-activedescendant={items[active] && `${id}-${active}`}
        autocomplete="off"
        spellcheck={false}
        placeholder={say('go_hint')}
        value={typed}
        onInput={(event) => {
          typed.value = event.currentTarget.value;
          at.value = 0;
        }}
        onKeyDown={onKeyDown}
      />
      <ul class="palette" id={id} role="listbox" aria-label={say('go_list')}>
        {items.map((item, row) => (
          <li
            key={item.key}
            id={`${id}-${row}`}
            role="option"
            aria-selected={row === active}
            onClick={() => go(item)}
          >
            <bdi>{item.text}</bdi>
            <span class="hint">{item.kind}</span>
          </li>
        ))}
      </ul>
      {items.length === 0 && (
        <p class="hint" role="status">
          {say('go_none')}
        </p>
      )}
    </Dialog>
  );
}
