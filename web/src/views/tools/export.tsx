// A subtree into a file, as it was at one zxid.

import { type Signal, useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { ApiError } from '../../api/error';
import type { ExportEnd } from '../../api/types';
import { http } from '../../app/cluster';
import { navigate, urlOf } from '../../app/router';
import { byteSize } from '../../format/bytes';
import { nameOf } from '../../format/path';
import { visibleName } from '../../format/text';
import { epochCounter } from '../../format/zxid';
import { Button } from '../../ui/button';
import { Icon } from '../../ui/icon';
import { Failure } from '../../ui/state';
import { Lines } from './lines';
import { PathField, typed, typedPath } from './path_field';
import { say } from './texts';

const SHOW_MS = 200; // How often the progress is shown.

interface Progress {
  running: boolean;
  lines: number;
  bytes: number;
  /** It is whole, and saved. */
  end?: ExportEnd;
  zxid?: string;
  error?: Error;
}

const START: Progress = { running: true, lines: 0, bytes: 0 };

function save(path: string, parts: Blob[], zxid: string): void {
  const link = document.createElement('a');
  const name = path === '/' ? 'all' : visibleName(nameOf(path));
  link.href = URL.createObjectURL(new Blob(parts, { type: 'application/x-ndjson' }));
  link.download = `zabra-${name}-${epochCounter(zxid).replace(':', '-')}.ndjson`;
  link.click();
  URL.revokeObjectURL(link.href);
}

/** Only what is whole is saved. */
async function exportTo(
  progress: Signal<Progress>,
  path: string,
  dataformat: string,
  signal: AbortSignal,
): Promise<void> {
  const lines = new Lines();
  const parts: Blob[] = [];
  const response = await http.send('GET', '/export/v1', { query: { path, dataformat }, signal });
  const reader = response.body?.getReader();
  let told = 0;
  for (let read = await reader?.read(); read && !read.done; read = await reader?.read()) {
    lines.take(read.value);
    parts.push(new Blob([read.value]));
    if (performance.now() - told > SHOW_MS) {
      told = performance.now();
      progress.value = { ...START, lines: lines.count, bytes: lines.bytes };
    }
  }
  const { head, tail, error } = lines;
  if (!head || !tail) {
    throw error ? new ApiError(error) : new Error(say('cut_off'));
  }
  save(path, parts, head.zxid);
  progress.value = {
    running: false,
    lines: lines.count,
    bytes: lines.bytes,
    end: tail,
    zxid: head.zxid,
  };
}

export function Export({ path }: { path: string }) {
  const progress = useSignal<Progress | undefined>(undefined);
  const abort = useRef<AbortController | undefined>(undefined);
  useEffect(() => () => abort.current?.abort(), []);
  const start = (top: string, dataformat: string) => {
    const own = new AbortController();
    abort.current = own;
    progress.value = START;
    exportTo(progress as Signal<Progress>, top, dataformat, own.signal).catch((error: Error) => {
      progress.value = own.signal.aborted ? undefined : { ...START, running: false, error };
    });
  };
  const now = progress.value;
  return (
    <>
      <form
        class="form tool-form"
        onSubmit={(event) => {
          event.preventDefault();
          const top = typedPath(event.currentTarget);
          navigate(urlOf('tools', top, { tool: 'export' }), true);
          start(top, typed(event.currentTarget, 'dataformat'));
        }}
      >
        <p class="hint">{say('export_hint')}</p>
        <PathField path={path} />
        <label>
          {say('data_form')}
          <select name="dataformat">
            <option value="auto">{say('data_auto')}</option>
            <option value="base64">{say('data_base64')}</option>
          </select>
        </label>
        <footer>
          {now?.running && <Button onClick={() => abort.current?.abort()}>{say('cancel')}</Button>}
          <Button
            kind="primary"
            type="submit"
            icon="download"
            reason={now?.running ? say('export_running', running(now)) : undefined}
          >
            {say('export_start')}
          </Button>
        </footer>
      </form>
      {now && <Told progress={now} />}
    </>
  );
}

function running({ lines, bytes }: Progress) {
  return { count: lines, size: byteSize(bytes) };
}

function Told({ progress }: { progress: Progress }) {
  const { error, end, zxid = '0x0', bytes } = progress;
  if (error) {
    return <Failure error={error} />;
  }
  if (!end) {
    return (
      <p class="state" role="status">
        <span class="spinner" aria-hidden="true" />
        {say('export_running', running(progress))}
      </p>
    );
  }
  const { znodes, skippedEphemerals: ephemerals, skippedUnreadable: unreadable } = end;
  return (
    <div class="outcome" role="status">
      <p class="outcome-good">
        <Icon name="check" />
        {say('export_all', { znodes, zxid: epochCounter(zxid), size: byteSize(bytes) })}
      </p>
      {ephemerals + unreadable > 0 && <p>{say('export_skipped', { ephemerals, unreadable })}</p>}
      {end.maskedAcls > 0 && <p>{say('export_masked', { count: end.maskedAcls })}</p>}
    </div>
  );
}
