// Curves over time. Their current values stand beside them as text, also for screen readers.

import { useEffect, useRef } from 'preact/hooks';
import { shownTheme } from '../app/theme';
import { locale } from '../i18n';
import type { PlotCanvas } from './plot_canvas';

/** On its way as soon as a view with plots is: later its replica may be gone. */
const canvasCode = import('./plot_canvas').catch(() => undefined);

export interface Curve {
  title: string;
  /** A custom property of the theme, without its dashes. */
  colour: 'curve-1' | 'curve-2' | 'curve-3' | 'curve-4';
  /** One for each time; null: nothing was measured. */
  values: (number | null)[];
}

interface Props {
  title: string;
  /** Seconds since 1970, ascending. */
  times: number[];
  curves: Curve[];
  format: (value: number) => string;
}

export function Plot({ title, times, curves, format }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<PlotCanvas | undefined>(undefined);
  const latest = useRef({ times, curves });
  latest.current = { times, curves };
  useEffect(() => {
    let current = true;
    void canvasCode.then((code) => {
      if (current && box.current && code) {
        canvas.current = code.plotIn(box.current, latest.current.curves, format, locale());
        canvas.current.draw(latest.current.times, latest.current.curves);
      }
    });
    return () => {
      current = false;
      canvas.current?.stop();
      canvas.current = undefined;
    };
  }, [shownTheme.value, locale()]);
  useEffect(() => canvas.current?.draw(times, curves), [times]);
  return (
    <figure class="plot">
      <figcaption>
        <h3>{title}</h3>
        {curves.map(({ title: name, colour, values }) => {
          const now = values.findLast((value) => value !== null);
          return (
            <span key={name} class={`curve ${colour}`}>
              {name} <strong>{now === undefined || now === null ? '–' : format(now)}</strong>
            </span>
          );
        })}
      </figcaption>
      <div ref={box} class="plot-box" aria-hidden="true" />
    </figure>
  );
}
