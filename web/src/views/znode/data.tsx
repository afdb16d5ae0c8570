import { useSignal } from '@preact/signals';
import { useEffect, useMemo } from 'preact/hooks';
import { byteSize, HEX_ROW, hexLine } from '../../format/bytes';
import { nameOf } from '../../format/path';
import { hasRightToLeft, visibleName, visibleText } from '../../format/text';
import { Button } from '../../ui/button';
import { Copy } from '../../ui/copy';
import { Empty } from '../../ui/state';
import { VirtualList } from '../../ui/virtual_list';
import { FORMS, type Form, type Shown, show } from './forms';
import { say } from './texts';

const TEXT_MAX = 256 * 1024; // Characters shown at once; all can be downloaded.
const TWO_WAY_MAX = 16 * 1024; // Of those that go both ways.
const LINES_MAX = 5_000; // A browser that lays out more of them at once stands still.
const LINE_HEIGHT = 20;

/** How each znode was looked at last, for as long as the page lives. */
const chosen = new Map<string, Form>();

interface Props {
  path: string;
  bytes: Uint8Array<ArrayBuffer> | null;
}

export function DataTab({ path, bytes }: Props) {
  const form = useSignal<Form>(chosen.get(path) ?? 'auto');
  const shown = useSignal<Shown | undefined>(undefined);
  useEffect(() => {
    let current = true;
    if (bytes && bytes.length > 0) {
      void show(bytes, form.value).then((result) => {
        if (current) {
          shown.value = result;
        }
      });
    }
    return () => {
      current = false;
    };
  }, [bytes, form.value]);
  if (bytes === null) {
    return <Empty>{say('data_null')}</Empty>;
  }
  if (bytes.length === 0) {
    return <Empty>{say('data_empty')}</Empty>;
  }
  return (
    <>
      <div class="bar">
        <select
          aria-label={say('form')}
          value={form}
          onChange={(event) => {
            form.value = event.currentTarget.value as Form;
            chosen.set(path, form.value);
          }}
        >
          {FORMS.map((one) => (
            <option key={one} value={one}>
              {say(`form_${one}`)}
            </option>
          ))}
        </select>
        <span class="hint">
          {byteSize(bytes.length)}
          {shown.value && `, ${say(`is_${shown.value.form}`)}`}
        </span>
        <span class="spacer" />
        {shown.value?.text !== undefined && (
          <Copy text={shown.value.text} label={say('copy_data')} />
        )}
        <Button
          kind="quiet"
          icon="download"
          label={say('download')}
          onClick={() => download(path, bytes)}
        />
      </div>
      {shown.value && <Bytes shown={shown.value} />}
    </>
  );
}

/** As much as a browser shows without standing still; whether that is less than all. */
function beginningOf(text: string): { beginning: string; cut: boolean } {
  const visible = visibleText(text.slice(0, TEXT_MAX));
  const beginning = visible.slice(0, TEXT_MAX).split('\n', LINES_MAX).join('\n');
  return { beginning, cut: text.length > TEXT_MAX || beginning.length < visible.length };
}

/** Whether its lines may be of two directions; of what is long all go the same way. */
function isTwoWay(text: string): boolean {
  return text.length <= TWO_WAY_MAX && hasRightToLeft(text);
}

function Bytes({ shown: { text, bytes, remark } }: { shown: Shown }) {
  const { beginning, cut } = useMemo(() => beginningOf(text ?? ''), [text]);
  return (
    <>
      {remark && <p class="banner resyncing">{say(remark)}</p>}
      {text !== undefined && (
        <pre
          class={isTwoWay(beginning) ? 'data two-way' : 'data'}
          dir="auto"
          tabIndex={0}
          aria-label={say('data')}
        >
          {beginning}
        </pre>
      )}
      {text !== undefined && cut && (
        <p class="hint">
          {say('too_long', { shown: byteSize(beginning.length), total: byteSize(text.length) })}
        </p>
      )}
      {bytes && <Hex bytes={bytes} />}
    </>
  );
}

export function Hex({ bytes, label = say('form_hex') }: { bytes: Uint8Array; label?: string }) {
  return (
    <VirtualList
      class="data hex"
      role="document"
      label={label}
      count={Math.ceil(bytes.length / HEX_ROW)}
      rowHeight={LINE_HEIGHT}
      row={(at) => (
        <div key={at} class="hex-line">
          {hexLine(bytes, at)}
        </div>
      )}
    />
  );
}

/** The bytes as they are. */
function download(path: string, bytes: Uint8Array<ArrayBuffer>): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([bytes], { type: 'application/octet-stream' }));
  link.download = nameOf(path) === '/' ? 'root' : visibleName(nameOf(path));
  link.click();
  URL.revokeObjectURL(link.href);
}
