// What stands around every view: where one is, at which replica, and how live what one sees is.

import { useSignal } from '@preact/signals';
import type { ComponentType } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import type { Ensemble, Hello } from '../api/types';
import { epochCounter } from '../format/zxid';
import { language } from '../i18n';
import { Button } from '../ui/button';
import { Dialog } from '../ui/dialog';
import { Icon } from '../ui/icon';
import { Empty, Failure, Loading } from '../ui/state';
import { announce, Toasts } from '../ui/toast';
import { Tooltip } from '../ui/tooltip';
import { views } from '../views';
import {
  clientsOf,
  condition,
  ensemble,
  formerHome,
  late,
  lostHome,
  newestZxid,
  readOnly,
  socket,
  status,
} from './cluster';
import { isOutside, votesOf } from './condition';
import { identity, loginOpen } from './identity';
import { helpOpen, PALETTE_KEY, paletteOpen, shortcuts } from './keyboard';
import { Login } from './login';
import { Palette } from './palette';
import { route, urlOf } from './router';
import { say } from './texts';
import { nextTheme, theme } from './theme';

const MEMBERS_SHOWN = 3; // In a line.

export function Frame() {
  return (
    <>
      <a class="skip" href="#content">
        {say('skip')}
      </a>
      <TopBar />
      <Navigation />
      <main id="content" tabIndex={-1}>
        <HealthBanner />
        <CurrentView />
      </main>
      <Toasts />
      {helpOpen.value && <Help />}
      {paletteOpen.value && <Palette />}
    </>
  );
}

function TopBar() {
  return (
    <header class="top-bar">
      <a class="brand" href={urlOf('overview')}>
        <span class="brand-mark" aria-hidden="true">
          z
        </span>
        zabra
      </a>
      <Serving />
      <span class="spacer" />
      <Button
        kind="quiet"
        icon="search"
        label={`${say('go')} (${PALETTE_KEY})`}
        onClick={() => {
          paletteOpen.value = true;
        }}
      />
      {readOnly.value && (
        <Tooltip text={say('read_only')}>
          <span class="chip warn" tabIndex={0} role="img" aria-label={say('read_only')}>
            <Icon name="lock" />
            <span class="wide">{say('read_only_short')}</span>
          </span>
        </Tooltip>
      )}
      <Button
        kind="quiet"
        label={say('language')}
        onClick={() => {
          language.value = language.value === 'en' ? 'zh' : 'en';
        }}
      >
        {language.value === 'en' ? '中文' : 'English'}
      </Button>
      <Button
        kind="quiet"
        icon={({ auto: 'auto', light: 'sun', dark: 'moon' } as const)[theme.value]}
        label={say(theme.value)}
        onClick={nextTheme}
      />
      <User />
    </header>
  );
}

const LAMPS = {
  live: 'live',
  read_only: 'live',
  stale: 'resyncing',
  reconnecting: 'resyncing',
  no_quorum: 'offline',
  offline: 'offline',
  locked: 'offline',
} as const;

/** As it said last: at the beginning of the connection, or since. */
function roleOf({ server, role }: Hello): Hello['role'] {
  return status.value?.id === server ? status.value.role : role;
}

/** Which cluster, which replica of it, up to where. */
function Serving() {
  const health = socket.locked.value ? 'locked' : condition.value;
  const hello = socket.hello.value;
  const cluster = status.value?.cluster.slice(0, 8);
  const environment = status.value?.environment;
  return (
    <div class="serving">
      <span class={`lamp ${LAMPS[health]}`} role="status" aria-label={say(`is_${health}`)}>
        <span class="lamp-text">{say(`is_${health}`)}</span>
      </span>
      {environment && <strong class="chip">{environment}</strong>}
      {cluster && <span class="wide">{say('cluster', { name: cluster })}</span>}
      {hello && (
        <span class="wide">
          {say('replica', { id: hello.server, role: say(`role_${roleOf(hello)}`) })}
        </span>
      )}
      {hello && (
        <Tooltip text={say('zxid', { zxid: newestZxid.value })}>
          <code class="zxid">{epochCounter(newestZxid.value)}</code>
        </Tooltip>
      )}
    </div>
  );
}

function User() {
  const user = identity.value?.user;
  return (
    <>
      <Button
        kind="quiet"
        icon={socket.refused.value ? 'warning' : 'user'}
        label={user ?? say('anonymous')}
        onClick={() => {
          loginOpen.value = true;
        }}
      >
        <span class="user-name">{user ?? say('anonymous')}</span>
      </Button>
      {loginOpen.value && (
        <Login
          onClose={() => {
            loginOpen.value = false;
          }}
        />
      )}
    </>
  );
}

function Navigation() {
  const nav = useRef<HTMLElement>(null);
  const { view } = route.value;
  useEffect(() => {
    // Where it is narrow only some of them are in sight.
    nav.current
      ?.querySelector('[aria-current]')
      ?.scrollIntoView({ block: 'nearest', inline: 'nearest' });
  }, [view]);
  return (
    <nav ref={nav} class="navigation" aria-label={say('navigation')}>
      {views.map(({ name, icon, title }) => (
        <a key={name} href={urlOf(name)} aria-current={view === name ? 'page' : undefined}>
          <Icon name={icon} />
          <span>{title()}</span>
        </a>
      ))}
    </nav>
  );
}

/** Says that another replica serves than before: where it goes fast nothing else is seen of it. Why the
 * one before serves no more is not known here: it may have died, stopped, or lost its leader. */
function useMoves(): void {
  const last = useRef<number | undefined>(undefined);
  const to = socket.hello.value?.server;
  useEffect(() => {
    const from = last.current;
    if (from !== undefined && to !== undefined && from !== to) {
      announce(say('moved', { from, to }));
    }
    last.current = to ?? from;
  }, [to]);
}

/** What is wrong with what one sees, and what that means; undefined: nothing, or it is too early to say. */
function conditionText(): string | undefined {
  const id = status.value?.id ?? 0;
  switch (condition.value) {
    case 'live':
    case 'read_only':
      return undefined;
    case 'stale':
      return say(`stale_${late.value ?? 'answer'}`, { id });
    case 'no_quorum':
      return ensemble.value && quorumText(ensemble.value);
    case 'reconnecting':
      return status.value && socket.link.value !== 'live'
        ? say('reconnecting', { replica: socket.replica.value })
        : undefined;
    case 'offline':
      return say('offline');
  }
}

function quorumText(all: Ensemble): string {
  return isOutside(all)
    ? say('no_member', { id: all.seen_by })
    : say('no_quorum', { ...votesOf(all) });
}

function HealthBanner() {
  useMoves();
  const text = conditionText();
  const refused = socket.refused.value;
  if (socket.locked.value) {
    return (
      <p class="banner offline" role="status">
        <Icon name="lock" />
        {say('identity_required')}
      </p>
    );
  }
  if (formerHome.value !== undefined) {
    return <Homeless home={formerHome.value} />;
  }
  if (text) {
    return (
      <p class={`banner ${LAMPS[condition.value]}`} role="status">
        <Icon name="warning" />
        <span>{text}</span>
      </p>
    );
  }
  if (refused) {
    return (
      <p class="banner offline" role="alert">
        <Icon name="lock" />
        {say('refused', { detail: refused.message })}
      </p>
    );
  }
  return lostHome.value === undefined ? null : <Stranded home={lostHome.value} />;
}

/** The same page where it can be had: all links lead to where this one came from. */
function Stranded({ home }: { home: number }) {
  route.value; // Whenever it changes, so has the location.
  const there = `${location.protocol}//${socket.replica.value}${location.pathname}${location.search}`;
  return (
    <p class="banner resyncing" role="status">
      <Icon name="warning" />
      <span>
        {say('stranded', { id: home })} <a href={there}>{there}</a>
      </span>
    </p>
  );
}

/** The members, for a page whose replica is none any more. */
function Homeless({ home }: { home: number }) {
  route.value; // Whenever it changes, so has the location.
  const hosts = ensemble.value ? clientsOf(ensemble.value).slice(0, MEMBERS_SHOWN) : [];
  return (
    <p class="banner offline" role="alert">
      <Icon name="warning" />
      <span>
        {say('homeless', { id: home })}
        {hosts.map((host) => {
          const there = `${location.protocol}//${host}${location.pathname}${location.search}`;
          return (
            <>
              {' '}
              <a href={there}>{there}</a>
            </>
          );
        })}
      </span>
    </p>
  );
}

/** Its code may still be on its way. */
function CurrentView() {
  const shown = useSignal<{ name: string; component: ComponentType } | undefined>(undefined);
  const failed = useSignal<Error | undefined>(undefined);
  const name = route.value.view;
  const view = views.find((one) => one.name === name);
  useEffect(() => {
    let current = true;
    document.title = `${view?.title() ?? name} · zabra`;
    failed.value = undefined;
    view?.load().then(
      ({ default: component }) => {
        if (current) {
          shown.value = { name, component };
        }
      },
      (error: Error) => {
        failed.value = error;
      },
    );
    return () => {
      current = false;
    };
  }, [name, language.value]);
  if (!view) {
    return <Empty icon="search">{say('no_view')}</Empty>;
  }
  if (failed.value) {
    return <Failure error={new Error(say('view_failed'))} onRetry={() => location.reload()} />;
  }
  if (shown.value?.name !== name) {
    return <Loading />;
  }
  const { component: Component } = shown.value;
  return <Component />;
}

function Help() {
  const keys: [string, string][] = [
    ...views.map(({ key, title }): [string, string] => [
      `g ${key}`,
      say('help_go', { view: title() }),
    ]),
    [PALETTE_KEY, say('help_palette')],
    ['/', say('help_filter')],
    ...shortcuts.value.map(({ key, text }): [string, string] => [key, text()]),
    ['?', say('help_help')],
  ];
  return (
    <Dialog
      title={say('help')}
      onClose={() => {
        helpOpen.value = false;
      }}
    >
      <dl class="keys">
        {keys.map(([key, text]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{text}</dd>
          </div>
        ))}
      </dl>
      <p class="hint">{say('help_tree')}</p>
      <p>
        <a href="/ui/docs/README.html" target="_blank" rel="noreferrer">
          {say('docs')}
        </a>
      </p>
    </Dialog>
  );
}
