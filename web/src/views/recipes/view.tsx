// A directory drawn as the recipe that it is. The URL names it, and how it is drawn if not by its names.

import type { ComponentType } from 'preact';
import { useEffect, useMemo } from 'preact/hooks';
import type { ApiError } from '../../api/error';
import { socket } from '../../app/cluster';
import { identity } from '../../app/identity';
import { navigate, route, urlOf } from '../../app/router';
import { isEphemeral } from '../../format/kind';
import { ancestorsOf, nameOf, parentOf } from '../../format/path';
import { visibleName } from '../../format/text';
import { Button } from '../../ui/button';
import { Empty, Failure, Loading } from '../../ui/state';
import { useNow } from '../../ui/use_now';
import { meant } from '../tools/path_field';
import { BarrierDrawing, GroupDrawing, SemaphoreDrawing } from './crowd';
import { Diary } from './diary_list';
import { Finder } from './finder';
import { LineDrawing, SimpleLock } from './line';
import { type Picture, RecipeModel } from './model';
import { SceneContext, Sentence } from './parts';
import { FOLDERS, KINDS, type Kind } from './shape';
import { CounterDrawing, QueueDrawing } from './stock';
import { say } from './texts';

const DRAWINGS: Record<Kind, ComponentType> = {
  lock: LineDrawing,
  rwlock: LineDrawing,
  election: LineDrawing,
  semaphore: SemaphoreDrawing,
  group: GroupDrawing,
  barrier: BarrierDrawing,
  queue: QueueDrawing,
  counter: CounterDrawing,
};

export default function Recipes() {
  const { path, query } = route.value;
  const asked = KINDS.find((kind) => kind === query.get('kind'));
  return (
    <div class="page recipes">
      <h1 class="sr-only">{say('title')}</h1>
      <Recipe key={`${asked} ${path} ${identity.value?.user}`} path={path} asked={asked} />
    </div>
  );
}

function useModel(path: string, kind: Kind | undefined): RecipeModel {
  const model = useMemo(
    () => new RecipeModel(socket, path, { kind, isSeen: () => !document.hidden }),
    [path, kind],
  );
  useEffect(() => {
    const wake = () => model.wake();
    model.start();
    document.addEventListener('visibilitychange', wake);
    return () => {
      document.removeEventListener('visibilitychange', wake);
      model.stop();
    };
  }, [model]);
  return model;
}

function Recipe({ path, asked }: { path: string; asked: Kind | undefined }) {
  const model = useModel(path, asked);
  const { picture, error } = model.loaded.value;
  return (
    <>
      <Head path={path} asked={asked} kind={picture?.kind} />
      {error && (
        <Absent path={path} kind={model.kind} error={error} onRetry={() => model.again()} />
      )}
      {!picture && !error && <Loading />}
      {picture?.kind && <Drawn model={model} picture={picture} kind={picture.kind} />}
      {picture && !picture.kind && <Finder path={path} />}
    </>
  );
}

/** That a barrier is not there means something. */
function Absent({
  path,
  kind,
  error,
  onRetry,
}: {
  path: string;
  kind: Kind | undefined;
  error: ApiError;
  onRetry: () => void;
}) {
  if (error.code !== 'NoNode') {
    return <Failure error={error} onRetry={onRetry} />;
  }
  return (kind ?? FOLDERS[parentOf(path)]) === 'barrier' ? (
    <section class="panel recipe">
      <Sentence icon="unlock">{say('barrier_down')}</Sentence>
    </section>
  ) : (
    <Empty icon="search">{say('no_znode')}</Empty>
  );
}

function Drawn({ model, picture, kind }: { model: RecipeModel; picture: Picture; kind: Kind }) {
  const now = useNow();
  const simple = kind === 'lock' && picture.total === 0 && isEphemeral(picture.stat);
  const Drawing = simple ? SimpleLock : DRAWINGS[kind];
  return (
    <SceneContext.Provider value={{ picture, texts: model.texts, now }}>
      <section class="panel recipe" aria-label={say(`kind_${kind}`)}>
        <Drawing />
      </section>
      {(picture.total > 0 || model.diary.value.length > 0) && <Diary entries={model.diary.value} />}
    </SceneContext.Provider>
  );
}

function Head({
  path,
  asked,
  kind,
}: {
  path: string;
  asked: Kind | undefined;
  kind: Kind | undefined;
}) {
  return (
    <header class="recipe-head">
      <nav class="breadcrumbs" aria-label={say('parents')}>
        <ol>
          {ancestorsOf(path).map((one) => (
            <li key={one}>
              {one === path ? (
                <bdi aria-current="page">{visibleName(nameOf(one))}</bdi>
              ) : (
                <a href={urlOf('recipes', one)}>
                  <bdi>{visibleName(nameOf(one))}</bdi>
                </a>
              )}
            </li>
          ))}
        </ol>
      </nav>
      <div class="bar">
        <GoTo path={path} />
        <KindChoice path={path} asked={asked} kind={kind} />
        <a class="button" href={urlOf('tree', path)}>
          {say('in_tree')}
        </a>
      </div>
    </header>
  );
}

/** A path that is typed. */
function GoTo({ path }: { path: string }) {
  return (
    <form
      class="go-to"
      onSubmit={(event) => {
        event.preventDefault();
        const typed = meant(event.currentTarget, 'path');
        if (typed !== '') {
          navigate(urlOf('recipes', typed));
        }
      }}
    >
      <input
        name="path"
        data-filter
        spellcheck={false}
        autocomplete="off"
        aria-label={say('find_path')}
        placeholder="/locks/report"
        defaultValue={path === '/' ? '' : path}
      />
      <Button type="submit">{say('find_go')}</Button>
    </form>
  );
}

function KindChoice({
  path,
  asked,
  kind,
}: {
  path: string;
  asked: Kind | undefined;
  kind: Kind | undefined;
}) {
  const guessed = kind && !asked ? say('kind_guess', { kind: say(`kind_${kind}`) }) : undefined;
  return (
    <select
      aria-label={say('kind')}
      value={asked ?? ''}
      onChange={(event) => {
        const chosen = event.currentTarget.value;
        navigate(urlOf('recipes', path, chosen ? { kind: chosen } : {}), true);
      }}
    >
      <option value="">{guessed ?? say('kind_guess_none')}</option>
      {KINDS.map((one) => (
        <option key={one} value={one}>
          {say(`kind_${one}`)}
        </option>
      ))}
    </select>
  );
}
