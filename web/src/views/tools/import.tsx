// A file into a subtree: first only looked at, then done, and told exactly.

import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import type { ApiError } from '../../api/error';
import type { Import as Figures } from '../../api/types';
import { http, readOnly, socket } from '../../app/cluster';
import { navigate, urlOf } from '../../app/router';
import { whyNoWrites } from '../../app/writes';
import { visibleName, visibleText } from '../../format/text';
import { locale } from '../../i18n';
import { Button } from '../../ui/button';
import { Icon } from '../../ui/icon';
import { Failure } from '../../ui/state';
import { toast } from '../../ui/toast';
import { useShown } from '../../ui/use_shown';
import { type Existing, existingOf } from './existing';
import { PathField, typedPath } from './path_field';
import { say } from './texts';

/** What may become of what is there. */
const CHOICES = ['skip', 'overwrite'] as const;

/** `fail`: nothing was there, so nothing should be. */
type Conflict = (typeof CHOICES)[number] | 'fail';

interface Source {
  path: string;
  file: File;
  parents: boolean;
}

type Step =
  | { step: 'choose'; error?: ApiError }
  | { step: 'working'; text: string; writes: boolean }
  | { step: 'checked'; source: Source; figures: Figures; existing: Existing }
  | { step: 'done'; figures: Figures }
  | { step: 'failed'; error: ApiError };

interface SendOptions {
  dryRun: boolean;
  conflict: Conflict;
  signal: AbortSignal;
}

async function send({ path, file, parents }: Source, options: SendOptions): Promise<Figures> {
  const { dryRun, conflict, signal } = options;
  const response = await http.send('POST', '/import/v1', {
    query: { path, dryRun, conflict, parents },
    headers: { 'Content-Type': 'application/x-ndjson' },
    body: file,
    signal,
  });
  return response.json() as Promise<Figures>;
}

function writing(step: Step): boolean {
  return step.step === 'working' && step.writes;
}

const ask = (event: BeforeUnloadEvent) => event.preventDefault();

/** For a user that has left the page meanwhile. */
function sayLate(top: string, step: Step): void {
  const path = visibleName(top);
  if (step.step === 'done') {
    const { created, overwritten } = step.figures;
    toast(say('import_late_done', { path, count: created + overwritten }));
  } else if (step.step === 'failed') {
    const outcome = outcomeOf(step.error);
    const what = say(outcome === 'failed_after' ? 'import_late_some' : outcome);
    const detail = `${step.error.message}. ${what}`;
    toast(say('import_late_failed', { path, detail: visibleText(detail) }), true);
  }
}

export function Import({ path }: { path: string }) {
  const now = useSignal<Step>({ step: 'choose' });
  const abort = useRef<AbortController | undefined>(undefined);
  const shown = useShown();
  useEffect(
    () => () => {
      if (!writing(now.peek())) {
        abort.current?.abort(); // A partial import is worse than one that runs in the background.
      }
    },
    [],
  );
  const begin = () => {
    abort.current = new AbortController();
    return abort.current.signal;
  };
  const check = async (source: Source) => {
    navigate(urlOf('tools', source.path, { tool: 'import' }), true);
    const signal = begin();
    now.value = { step: 'working', text: say('import_checking'), writes: false };
    try {
      const [figures, existing] = await Promise.all([
        send(source, { dryRun: true, conflict: 'overwrite', signal }),
        existingOf(socket, source.path, source.file),
      ]);
      now.value = { step: 'checked', source, figures, existing };
    } catch (error) {
      now.value = { step: 'choose', error: error as ApiError };
    }
  };
  const run = async (source: Source, conflict: Conflict) => {
    const signal = begin();
    now.value = { step: 'working', text: say('import_running'), writes: true };
    addEventListener('beforeunload', ask);
    try {
      const figures = await send(source, { dryRun: false, conflict, signal });
      now.value = { step: 'done', figures };
    } catch (error) {
      now.value = { step: 'failed', error: error as ApiError };
    }
    removeEventListener('beforeunload', ask);
    if (!shown.current) {
      sayLate(source.path, now.peek());
    }
  };
  const again = () => {
    now.value = { step: 'choose' };
  };
  const step = now.value;
  return (
    <>
      {step.step === 'choose' && <Choice path={path} error={step.error} onCheck={check} />}
      {step.step === 'working' && (
        <Working text={step.text} onStop={() => abort.current?.abort()} />
      )}
      {step.step === 'checked' && <Checked {...step} onRun={run} onBack={again} />}
      {step.step === 'done' && <Done figures={step.figures} onAgain={again} />}
      {step.step === 'failed' && <Failed error={step.error} onAgain={again} />}
    </>
  );
}

interface ChoiceProps {
  path: string;
  error: ApiError | undefined;
  onCheck: (source: Source) => void;
}

function Choice({ path, error, onCheck }: ChoiceProps) {
  const line = error?.problem.import?.line;
  return (
    <>
      <form
        class="form tool-form"
        onSubmit={(event) => {
          event.preventDefault();
          const form = event.currentTarget;
          const fields = new FormData(form);
          const file = fields.get('file');
          if (file instanceof File && file.name !== '') {
            onCheck({ path: typedPath(form), file, parents: fields.has('parents') });
          }
        }}
      >
        <p class="hint">{say('import_hint')}</p>
        <PathField path={path} />
        <label>
          {say('file')}
          <input name="file" type="file" required accept=".ndjson,.jsonl,.json,.txt" />
          <span class="hint">{say('file_hint')}</span>
        </label>
        <label class="check">
          <input name="parents" type="checkbox" defaultChecked />
          {say('import_parents')}
        </label>
        <footer>
          <Button kind="primary" type="submit">
            {say('import_check')}
          </Button>
        </footer>
      </form>
      {error &&
        (line ? (
          <Problem text={say('failed_at', { line, detail: error.message })} />
        ) : (
          <Failure error={error} right="create" />
        ))}
    </>
  );
}

function Problem({ text, children }: { text: string; children?: ComponentChildren }) {
  return (
    <div class="state failure" role="alert">
      <Icon name="warning" />
      <div>
        <strong>{visibleName(text)}</strong>
        {children}
      </div>
    </div>
  );
}

function Working({ text, onStop }: { text: string; onStop: () => void }) {
  return (
    <div class="state">
      <span class="spinner" aria-hidden="true" />
      <span role="status">{text}</span>
      <Button onClick={onStop}>{say('cancel')}</Button>
    </div>
  );
}

interface CheckedProps {
  source: Source;
  figures: Figures;
  existing: Existing;
  onRun: (source: Source, conflict: Conflict) => void;
  onBack: () => void;
}

/** What of the lines will be written. */
function writesOf({ created, overwritten }: Figures, conflict: Conflict): number {
  return conflict === 'overwrite' ? created + overwritten : created;
}

function whyNot(count: number): string | undefined {
  if (readOnly.value) {
    return say('read_only');
  }
  return whyNoWrites() ?? (count === 0 ? say('import_none') : undefined);
}

function Checked({ source, figures, existing, onRun, onBack }: CheckedProps) {
  const { created, overwritten } = figures;
  const conflict = useSignal<Conflict>(overwritten > 0 ? 'skip' : 'fail');
  const count = writesOf(figures, conflict.value);
  return (
    <form
      class="form tool-form"
      onSubmit={(event) => {
        event.preventDefault();
        onRun(source, conflict.value);
      }}
    >
      <p class="checked" role="status">
        <strong>{say('import_checked', { created, existing: overwritten })}</strong>
      </p>
      <ExistingList existing={existing} />
      {overwritten > 0 && (
        <fieldset>
          <legend>{say('conflict')}</legend>
          {CHOICES.map((one) => (
            <label key={one} class="check">
              <input
                type="radio"
                name="conflict"
                checked={conflict.value === one}
                onChange={() => {
                  conflict.value = one;
                }}
              />
              {say(`conflict_${one}`)}
            </label>
          ))}
        </fieldset>
      )}
      <p class="hint">{say('import_state_then')}</p>
      <footer>
        <Button onClick={onBack}>{say('import_again')}</Button>
        <Button
          kind={conflict.value === 'overwrite' ? 'danger' : 'primary'}
          type="submit"
          reason={whyNot(count)}
        >
          {count === 1 ? say('import_start_one') : say('import_start', { count })}
        </Button>
      </footer>
    </form>
  );
}

function ExistingList({ existing: { paths, found, looked } }: { existing: Existing }) {
  return found === 0 ? null : (
    <div>
      <p class="hint">{say('existing', { count: looked })}</p>
      <ul class="existing">
        {paths.map((path) => (
          <li key={path}>
            <a href={urlOf('tree', path)} target="_blank" rel="noreferrer">
              <bdi>{visibleName(path)}</bdi>
            </a>
          </li>
        ))}
        {found > paths.length && (
          <li class="hint">{say('existing_more', { count: found - paths.length })}</li>
        )}
      </ul>
    </div>
  );
}

function FiguresList({ figures }: { figures: Figures }) {
  const count = (value: number) => value.toLocaleString(locale());
  const rows: [Parameters<typeof say>[0], string][] = [
    ['done_created', count(figures.created)],
    ['done_overwritten', count(figures.overwritten)],
    ['done_skipped', count(figures.skipped)],
    ['done_multis', count(figures.multis)],
    ...(figures.zxidHex
      ? [['done_zxid', figures.zxidHex] as [Parameters<typeof say>[0], string]]
      : []),
  ];
  return (
    <dl class="facts" aria-label={say('result')}>
      {rows.map(([name, value]) => (
        <div key={name} class="fact">
          <dt>{say(name)}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

function Done({ figures, onAgain }: { figures: Figures; onAgain: () => void }) {
  const nothing = figures.created + figures.overwritten === 0;
  return (
    <div class="outcome" role="status">
      <p class="outcome-good">
        <Icon name="check" />
        {say(nothing ? 'import_done_nothing' : 'import_done')}
      </p>
      <FiguresList figures={figures} />
      <Button onClick={onAgain}>{say('import_again')}</Button>
    </div>
  );
}

/** How far it came, and what is not known. */
function outcomeOf({ problem, outcome }: ApiError) {
  const figures = problem.import;
  if (!figures && outcome === 'unknown') {
    return 'failed_unknown';
  }
  return figures && figures.created + figures.overwritten > 0 ? 'failed_after' : 'failed_nothing';
}

function Failed({ error, onAgain }: { error: ApiError; onAgain: () => void }) {
  const figures = error.problem.import;
  const line = figures?.line;
  const detail = line ? say('failed_at', { line, detail: error.message }) : error.message;
  const outcome = outcomeOf(error);
  return (
    <div class="outcome">
      <Problem text={detail}>
        <p>{say(outcome)}</p>
      </Problem>
      {outcome === 'failed_after' && figures && <FiguresList figures={figures} />}
      <Button onClick={onAgain}>{say('import_again')}</Button>
    </div>
  );
}
