import type { ComponentChildren } from 'preact';
import type { Stat } from '../../api/types';
import { urlOf } from '../../app/router';
import { byteSize } from '../../format/bytes';
import { isEphemeral } from '../../format/kind';
import { duration, localTime, NO_TIME, utcTime } from '../../format/time';
import { epochCounter } from '../../format/zxid';
import { locale } from '../../i18n';
import { Ago } from '../../ui/ago';
import { say } from './texts';

function Zxid({ zxid }: { zxid: string }) {
  return (
    <>
      <code>{zxid}</code> <span class="hint">{epochCounter(zxid)}</span>
    </>
  );
}

function Time({ ms }: { ms: number }) {
  return ms === 0 ? (
    NO_TIME
  ) : (
    <>
      <time dateTime={new Date(ms).toISOString()}>{localTime(ms)}</time>{' '}
      <span class="hint">
        <Ago ms={ms} />, {utcTime(ms)}
      </span>
    </>
  );
}

/** What keeps it alive. */
function Owner({ stat }: { stat: Stat }) {
  if (isEphemeral(stat)) {
    return (
      <a href={urlOf('sessions', `/${stat.ephemeralOwner}`)}>
        <code>{say('owner_session', { id: stat.ephemeralOwner })}</code>
      </a>
    );
  }
  if (stat.ttl !== undefined) {
    return <>{say('owner_ttl', { time: duration(stat.ttl) })}</>;
  }
  return <>{say(stat.container ? 'owner_container' : 'owner_none')}</>;
}

export function StatTab({ stat }: { stat: Stat }) {
  const count = (value: number) => value.toLocaleString(locale());
  const rows: [Exclude<keyof Stat, 'container' | 'ttl'>, ComponentChildren][] = [
    ['ctime', <Time key="ctime" ms={stat.ctime} />],
    ['czxid', <Zxid key="czxid" zxid={stat.czxid} />],
    ['mtime', <Time key="mtime" ms={stat.mtime} />],
    ['mzxid', <Zxid key="mzxid" zxid={stat.mzxid} />],
    ['version', count(stat.version)],
    [
      'dataLength',
      stat.dataLength < 1024
        ? count(stat.dataLength)
        : `${count(stat.dataLength)} (${byteSize(stat.dataLength)})`,
    ],
    ['numChildren', count(stat.numChildren)],
    ['cversion', count(stat.cversion)],
    ['pzxid', <Zxid key="pzxid" zxid={stat.pzxid} />],
    ['aversion', count(stat.aversion)],
    ['ephemeralOwner', <Owner key="owner" stat={stat} />],
  ];
  return (
    <dl class="pairs">
      {rows.map(([name, value]) => (
        <div key={name}>
          <dt>
            {say(`stat_${name}`)} <code>{name}</code>
          </dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
