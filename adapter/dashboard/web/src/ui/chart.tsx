import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { now } from '../store';
import { theme } from './shell';

export interface Line {
  label: string;
  colour: string; // the name of a custom property of the style sheet
  dash?: number[];
  values: (number | null)[];
}

interface Props {
  title: string;
  summary: string; // what a screen reader says instead of the picture
  times: number[]; // milliseconds since 1970
  lines: Line[];
  format: (n: number) => string;
  marks?: number[]; // times with a vertical line
  height?: number;
}

/** Chart draws lines over the time, and a legend with the values at the time shown. */
export function Chart(p: Props) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const current = useRef(p);
  current.current = p;
  const shape = p.title + p.lines.map((l) => l.label).join() + theme.value;
  useEffect(() => {
    const frame = box.current!;
    const make = () => {
      plot.current?.destroy();
      plot.current = draw(frame, () => current.current);
    };
    make();
    const media = matchMedia('(prefers-color-scheme: dark)');
    media.addEventListener('change', make);
    const resized = new ResizeObserver(() => plot.current?.setSize({ width: frame.clientWidth, height: current.current.height ?? 150 }));
    resized.observe(frame);
    return () => {
      media.removeEventListener('change', make);
      resized.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [shape]);
  useEffect(() => plot.current?.setData(data(p)), [p.times.at(-1), p.times.length, p.lines, now.value]);
  return (
    <figure class="chart">
      <figcaption>
        <b>{p.title}</b>
        {p.lines.map((l) => (
          <span>
            <span class={'swatch ' + l.colour + (l.dash ? ' dashed' : '')} aria-hidden="true" /> {l.label} <span class="num">{latest(l, p.format)}</span>
          </span>
        ))}
      </figcaption>
      <div ref={box} role="img" aria-label={p.summary} />
    </figure>
  );
}

function latest(l: Line, format: (n: number) => string): string {
  const v = l.values.at(-1);
  return v === null || v === undefined ? '–' : format(v);
}

function data(p: Props): uPlot.AlignedData {
  return [p.times.map((t) => t / 1000), ...p.lines.map((l) => l.values)] as uPlot.AlignedData;
}

/** colour resolves a custom property, since a canvas does not know the style sheet. */
function colour(box: HTMLElement, name: string): string {
  box.style.color = `var(--${name})`;
  const c = getComputedStyle(box).color;
  box.style.color = '';
  return c;
}

function draw(box: HTMLElement, props: () => Props): uPlot {
  const p = props();
  const text = colour(box, 'muted');
  const axis = { stroke: text, grid: { stroke: colour(box, 'line'), width: 1 }, ticks: { show: false }, font: '11px system-ui, sans-serif' };
  return new uPlot(
    {
      width: box.clientWidth,
      height: p.height ?? 150,
      legend: { show: false },
      cursor: { show: false },
      scales: { y: { range: (_, __, high) => [0, high > 0 ? high * 1.1 : 1] } },
      axes: [
        { ...axis, space: 80, size: 24, incrs: [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 3600], values: (_, ticks) => ticks.map((t) => new Date(t * 1000).toLocaleTimeString('en-GB')) },
        { ...axis, size: 62, space: 30, values: (_, ticks) => ticks.map((v) => props().format(v)) },
      ],
      series: [
        {},
        ...p.lines.map((l) => ({ label: l.label, stroke: colour(box, l.colour), width: 1.6, dash: l.dash, points: { show: false }, spanGaps: false })),
      ],
      hooks: { draw: [(u) => marks(u, props().marks ?? [], colour(box, 'accent'))] },
    },
    data(p),
    box,
  );
}

function marks(u: uPlot, times: number[], stroke: string): void {
  const { ctx, bbox } = u;
  ctx.save();
  ctx.strokeStyle = stroke;
  ctx.setLineDash([3, 3]);
  for (const t of times) {
    const x = Math.round(u.valToPos(t / 1000, 'x', true));
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.restore();
}
