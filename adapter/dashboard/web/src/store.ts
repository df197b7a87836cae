import { computed, effect, signal } from '@preact/signals';
import failing from './failing.svg';
import well from './well.svg';
import { rows, seconds } from './derive';
import type { Change, Durations, Failure, Fleet, Graph, History, Info, Keys, Recording, Snapshot, Timers, Tree, Verdicts, Work } from './types';

// What the page knows: a ring of snapshots of the last ten minutes, from
// /history, the events, or a file, and the point in it that is shown.

/** Moment is a snapshot with the verdict of its time, if the page heard one. */
export interface Moment {
  t: number; // milliseconds since 1970
  s: Snapshot;
  verdict?: Verdicts;
}

export const tenMinutes = 600_000;

export const info = signal<Info | null>(null);
export const graph = signal<Graph | null>(null);
export const ring = signal<Moment[]>([]);
export const journal = signal<Change[]>([]);
export const failures = signal<Failure[]>([]);
export const tree = signal<Tree | null>(null);
export const work = signal<Work | null>(null);
export const keys = signal<Keys | null>(null);
export const timers = signal<Timers | null>(null);
export const fleet = signal<Fleet | null>(null);
export const connection = signal<'connecting' | 'live' | 'lost' | 'ended'>('connecting');

/** file is the name of the recording that is shown; empty for the live pipeline. */
export const file = signal('');

/** at is the point in time that is shown; null is the newest. */
export const at = signal<number | null>(null);

/** span is over how many seconds rates are computed. */
export const span = 10;

const index = computed(() => {
  const all = ring.value;
  return at.value === null ? all.length - 1 : find(all, at.value);
});

/** find is the place of the last moment that is not after t, or the first. */
function find(all: Moment[], t: number): number {
  let low = 0;
  let high = all.length - 1;
  while (low < high) {
    const mid = (low + high + 1) >> 1;
    if (all[mid]!.t <= t) low = mid;
    else high = mid - 1;
  }
  return all.length ? low : -1;
}

export const now = computed(() => ring.value[index.value] ?? null);
export const snapshot = computed(() => now.value?.s ?? null);

/** earlier is the snapshot with which rates are computed; the one a span ago. */
export const earlier = computed(() => ago(span));

/** ago is the snapshot some seconds before the shown one, or the first, if that is nearer. */
export function ago(s: number): Snapshot | undefined {
  const all = ring.value;
  const i = index.value;
  if (i <= 0) return undefined;
  return all[Math.min(find(all, all[i]!.t - s * 1000), i - 1)]?.s;
}

/** shown are the moments up to the shown one. */
export const shown = computed(() => (at.value === null ? ring.value : ring.value.slice(0, index.value + 1)));

export const stageRows = computed(() => (snapshot.value ? rows(snapshot.value, earlier.value) : []));

export const verdict = computed(() => now.value?.verdict?.now ?? null);

/** before is the verdict a minute before the shown moment, if it is known. */
export const before = computed(() => {
  const all = ring.value;
  const t = (now.value?.t ?? 0) - 60_000;
  return all.length && all[0]!.t <= t ? (all[find(all, t)]!.verdict?.now ?? null) : null;
});

/** recent is how many commands failed in the minute before the shown moment. */
export const recent = computed(() => {
  const s = snapshot.value;
  const before = ago(60);
  if (!s || !before) return 0;
  const bad = (x: Snapshot) => x.failed + x.deadLettered + x.shed;
  return Math.max(0, bad(s) - bad(before));
});

/** changes are the changes up to the shown moment, newest first. */
export const changes = computed(() => {
  const limit = at.value;
  const all = limit === null ? journal.value : journal.value.filter((c) => Date.parse(c.at) <= limit);
  return [...all].sort((a, b) => b.n - a.n);
});

/** groups are the failures that there were at the shown moment, newest first. */
export const groups = computed(() => {
  const limit = at.value;
  const all = limit === null ? failures.value : failures.value.filter((f) => Date.parse(f.first) <= limit);
  return [...all].sort((a, b) => Date.parse(b.last) - Date.parse(a.last));
});

export function push(s: Snapshot): void {
  const t = seconds(s) * 1000;
  const all = ring.value;
  const last = all.at(-1);
  if (last && last.t >= t) return;
  const first = all.findIndex((m) => m.t >= t - tenMinutes);
  ring.value = aged([...(first > 0 ? all.slice(first) : all), { t, s, verdict: last?.verdict }]);
}

const whole = 30; // the newest moments, of which all is kept
const detailed = 60; // every so many of the others, one has the buckets of durations
const mostStages = 24_000; // in the ring, as in the server's

/** aged thins out the moment that has just become old: two hundred stages would take some hundred megabytes. */
function aged(all: Moment[]): Moment[] {
  const i = all.length - 1 - whole;
  const old = all[i];
  if (!old || old.s.n % detailed === 0) return all;
  const every = Math.ceil((old.s.order.length * (tenMinutes / 1000)) / mostStages);
  return old.s.n % every ? all.toSpliced(i, 1) : all.with(i, { ...old, s: slim(old.s) });
}

function slim(s: Snapshot): Snapshot {
  const without = (d: Durations) => ({ ...d, buckets: undefined });
  const stages = Object.entries(s.stages).map(([name, x]) => [name, { ...x, wait: without(x.wait), service: without(x.service) }]);
  return { ...s, stages: Object.fromEntries(stages) };
}

/** long is an interval of a minute or more, some minutes before the shown moment, if there are buckets of then. */
export const long = computed(() => {
  const all = shown.value.slice(0, -detailed).filter((m) => Object.values(m.s.stages).some((s) => s.wait.buckets?.length));
  return all.length > 1 ? { from: all[0]!.s, to: all[1]!.s } : null;
});

/** past adds older snapshots before the ones that the page already has. */
export function past(h: History): void {
  const first = ring.value[0]?.t ?? Infinity;
  ring.value = [...moments(h).filter((m) => m.t < first), ...ring.value];
}

/** moments are the snapshots of a history, each with the verdict of its time. */
function moments(h: History): Moment[] {
  const verdicts = h.verdicts ?? [];
  let next = 0;
  let verdict: Verdicts | undefined;
  return (h.snapshots ?? []).map((s) => {
    while (next < verdicts.length && (verdicts[next]!.n ?? 0) <= s.n) verdict = { now: verdicts[next++]!, before: null };
    return { t: seconds(s) * 1000, s, verdict };
  });
}

export function judged(v: Verdicts): void {
  const all = ring.value;
  const last = all.at(-1);
  if (last) ring.value = [...all.slice(0, -1), { ...last, verdict: v }];
}

export function heard(more: Change[]): void {
  if (!more.length) return;
  const all = new Map(journal.value.map((c) => [c.n, c]));
  for (const c of more) all.set(c.n, c);
  journal.value = [...all.values()].sort((a, b) => a.n - b.n).slice(-2000);
}

/** enabled reports whether the page may ask the pipeline for an action. */
export function enabled(verb: string): boolean {
  const i = info.value;
  return !!i && !i.readOnly && !file.value && (i.actions ?? []).includes(verb);
}

export function load(name: string, r: Recording): void {
  file.value = name;
  at.value = null;
  info.value = { ...r.root, readOnly: true, actions: [] };
  graph.value = r.graph;
  journal.value = r.journal.changes ?? [];
  failures.value = r.failures.groups ?? [];
  tree.value = r.tree;
  work.value = r.workers;
  keys.value = timers.value = null;
  fleet.value = r.processes ?? null;
  ring.value = moments(r.history);
}

effect(() => {
  const s = snapshot.value;
  const bad = recent.value;
  const name = s?.pipeline ?? 'Golda';
  document.title = (bad ? `! ${bad} failed – ` : connection.value === 'lost' && !file.value ? '? – ' : '') + `${name} – Golda`;
  const icon = document.querySelector<HTMLLinkElement>('link[rel=icon]');
  const to = bad ? failing : well;
  if (icon && icon.getAttribute('href') !== to) icon.setAttribute('href', to);
});
