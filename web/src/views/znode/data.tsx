import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { byteSize, HEX_ROW, hexLine } from '../../format/bytes';
import { nameOf } from '../../format/path';
import { visibleText } from '../../format/text';
import { Button } from '../../ui/button';
import { Copy } from '../../ui/copy';
import { Empty } from '../../ui/state';
import { VirtualList } from '../../ui/virtual_list';
import { FORMS, type Form, type Shown, show } from './forms';
import { say } from './texts';

const TEXT_MAX = 256 * 1024; // Characters shown at once; all can be downloaded.
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

function Bytes({ shown: { text, bytes, remark } }: { shown: Shown }) {
  const long = text !== undefined && text.length > TEXT_MAX;
  return (
    <>
      {remark && <p class="banner resyncing">{say(remark)}</p>}
      {text !== undefined && (
        <pre class="data" dir="auto" tabIndex={0} aria-label={say('data')}>
          {visibleText(long ? text.slice(0, TEXT_MAX) : text)}
        </pre>
      )}
      {long && (
        <p class="hint">
          {say('too_long', { shown: byteSize(TEXT_MAX), total: byteSize(text.length) })}
        </p>
      )}
      {bytes && <Hex bytes={bytes} />}
    </>
  );
}

function Hex({ bytes }: { bytes: Uint8Array }) {
  return (
    <VirtualList
      class="data hex"
      role="document"
      label={say('form_hex')}
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
  link.download = nameOf(path) === '/' ? 'root' : nameOf(path);
  link.click();
  URL.revokeObjectURL(link.href);
}
