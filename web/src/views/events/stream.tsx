// The lines: the newest is at the end, and is kept in view until one scrolls away from it.

import { useSignal } from '@preact/signals';
import { useEffect, useMemo, useRef } from 'preact/hooks';
import { urlOf } from '../../app/router';
import { visibleName } from '../../format/text';
import { epochCounter } from '../../format/zxid';
import { locale } from '../../i18n';
import { Button } from '../../ui/button';
import { Icon } from '../../ui/icon';
import { Empty } from '../../ui/state';
import { type VirtualHandle, VirtualList } from '../../ui/virtual_list';
import type { Line, Shown } from './model';
import { say } from './texts';

const ROW_HEIGHT = 30;
const NEAR_PX = ROW_HEIGHT * 2; // So near to the end is at the end.

export function Stream({ shown }: { shown: Shown }) {
  const { lines } = shown;
  const handle = useRef<VirtualHandle>(null);
  const follows = useSignal(true);
  const top = useRef(0);
  const clock = useMemo(() => clockOf(locale()), [locale()]);
  useEffect(() => {
    if (follows.peek()) {
      handle.current?.show(lines.length - 1);
    }
  }, [shown, follows.value]);
  /** New lines do not scroll it up: only the user does. */
  const onScroll = (event: Event) => {
    const box = event.target as HTMLElement;
    const left = box.scrollHeight - box.scrollTop - box.clientHeight;
    if (box.scrollTop < top.current && left > NEAR_PX) {
      follows.value = false;
    } else if (left <= NEAR_PX) {
      follows.value = true;
    }
    top.current = box.scrollTop;
  };
  if (lines.length === 0) {
    return <Empty icon="clock">{say('waiting')}</Empty>;
  }
  return (
    <div class="stream-box" onScrollCapture={onScroll}>
      <VirtualList
        class="stream"
        role="log"
        label={say('stream')}
        count={lines.length}
        rowHeight={ROW_HEIGHT}
        handle={handle}
        row={(at) => {
          const line = lines.at(at);
          return line && <Row key={line.seq} line={line} clock={clock} />;
        }}
      />
      {!follows.value && (
        <div class="stream-last">
          <Button
            icon="down"
            onClick={() => {
              follows.value = true;
            }}
          >
            {say('last')}
          </Button>
        </div>
      )}
    </div>
  );
}

function clockOf(language: string): Intl.DateTimeFormat {
  return new Intl.DateTimeFormat(language, {
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
    fractionalSecondDigits: 3,
    hourCycle: 'h23',
  });
}

const LOOKS: Record<string, string> = {
  NodeCreated: 'good',
  NodeDeleted: 'bad',
  NodeDataChanged: 'warn',
  NodeChildrenChanged: '',
};

type EventName = 'NodeCreated' | 'NodeDeleted' | 'NodeDataChanged' | 'NodeChildrenChanged';

function Row({ line, clock }: { line: Line; clock: Intl.DateTimeFormat }) {
  const time = (
    <time dateTime={new Date(line.at).toISOString()} title={new Date(line.at).toISOString()}>
      {clock.format(line.at)}
    </time>
  );
  if (line.kind !== 'event') {
    return (
      <div class={`stream-row remark ${line.kind}`}>
        {time}
        <Icon name={line.kind === 'back' ? 'check' : 'warning'} />
        <span>{remark(line)}</span>
      </div>
    );
  }
  const { event, path, zxid } = line.change;
  return (
    <div class="stream-row">
      {time}
      <span class={`stream-event ${LOOKS[event] ?? ''}`}>{say(`event_${event as EventName}`)}</span>
      <a href={urlOf('tree', path)}>
        <bdi>{visibleName(path)}</bdi>
      </a>
      <code class="stream-zxid" title={zxid}>
        {epochCounter(zxid)}
      </code>
    </div>
  );
}

function remark(line: Exclude<Line, { kind: 'event' }>): string {
  switch (line.kind) {
    case 'gap':
    case 'diff':
      return say(line.kind, { watch: visibleName(line.of.slice(line.of.indexOf(':') + 1)) });
    case 'skipped':
      return say('skipped', { count: line.count });
    case 'lost':
      return say('lost');
    case 'back':
      return say('back', { replica: line.replica });
  }
}
