// uPlot, which is large: a chunk of its own, loaded by plot.tsx.

import uPlot from 'uplot';
import type { Curve } from './plot';

const HEIGHT = 150;
const AXIS_WIDTH = 64;
const AXIS_HEIGHT = 24;
const TIME_WIDTH = 52; // Of the last time below the plot, whose middle may be at its end.
const SHORT_S = 180; // Up to here times have seconds.

export interface PlotCanvas {
  draw(times: number[], curves: Curve[]): void;
  stop(): void;
}

/** The value of a custom property: a canvas knows none. */
function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/** A value between two gaps is no line: it is a point. */
function alone({ data }: uPlot, series: number): number[] | null {
  const values = data[series] ?? [];
  const single = [...values.keys()].filter(
    (at) => values[at] != null && values[at - 1] == null && values[at + 1] == null,
  );
  return single.length > 0 ? single : null;
}

export function plotIn(
  box: HTMLElement,
  curves: Curve[],
  format: (value: number) => string,
  locale: string,
): PlotCanvas {
  const grid = { stroke: colour('line'), width: 1 };
  const axis = { stroke: colour('muted'), grid, ticks: { show: false }, font: '11px system-ui' };
  const clock = new Intl.DateTimeFormat(locale, { timeStyle: 'short' });
  const seconds = new Intl.DateTimeFormat(locale, { timeStyle: 'medium' });
  const at = (ticks: number[]) => {
    const short = (ticks.at(-1) ?? 0) - (ticks[0] ?? 0) < SHORT_S;
    return ticks.map((tick) => (short ? seconds : clock).format(tick * 1_000));
  };
  const plot = new uPlot(
    {
      width: box.clientWidth,
      height: HEIGHT,
      padding: [6, TIME_WIDTH / 2, 0, 0],
      legend: { show: false },
      cursor: { show: false },
      scales: { y: { range: (_, low, high) => [Math.min(0, low ?? 0), Math.max(high ?? 0, 1)] } },
      axes: [
        { ...axis, size: AXIS_HEIGHT, space: 90, values: (_, ticks) => at(ticks) },
        { ...axis, size: AXIS_WIDTH, space: 34, values: (_, ticks) => ticks.map(format) },
      ],
      series: [
        {},
        ...curves.map(({ colour: name }) => ({
          stroke: colour(name),
          width: 1.5,
          points: { show: false, size: 4, fill: colour(name), filter: alone },
        })),
      ],
    },
    [[], ...curves.map(() => [])],
    box,
  );
  const observer = new ResizeObserver(() =>
    plot.setSize({ width: box.clientWidth, height: HEIGHT }),
  );
  observer.observe(box);
  return {
    draw: (times, now) => plot.setData([times, ...now.map(({ values }) => values)]),
    stop: () => {
      observer.disconnect();
      plot.destroy();
    },
  };
}
