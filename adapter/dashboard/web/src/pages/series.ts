import { shown } from '../store';
import type { Snapshot, Stage } from '../types';

// Values of each shown moment, for charts.

export const times = () => shown.value.map((m) => m.t);

function sum(s: Snapshot, stage: string, f: (s: Stage) => number): number | null {
  if (stage) return s.stages[stage] ? f(s.stages[stage]!) : null;
  return Object.values(s.stages).reduce((n, x) => n + f(x), 0);
}

const series = (stage: string, f: (s: Stage) => number) => shown.value.map((m) => sum(m.s, stage, f));

export const queuedSeries = (stage: string) => series(stage, (s) => s.queue.length ?? 0);
export const workersSeries = (stage: string) => series(stage, (s) => s.workers.live ?? 0);
export const busySeries = (stage: string) => series(stage, (s) => s.workers.busy ?? 0);
export const mostSeries = (stage: string) => series(stage, (s) => s.workers.most ?? 0);

/** growth is how much counts grew each second, from each moment to the next. */
export function growth(stage: string, names: string[]): (number | null)[] {
  const totals = series(stage, (s) => names.reduce((n, name) => n + (s.counts[name] ?? 0), 0));
  return totals.map((n, i) => {
    const before = totals[i - 1];
    const dt = i ? (shown.value[i]!.t - shown.value[i - 1]!.t) / 1000 : 0;
    return n === null || before === null || before === undefined || dt <= 0 ? null : Math.max(0, n - before) / dt;
  });
}
