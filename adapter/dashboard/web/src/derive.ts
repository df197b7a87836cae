import type { Durations, Snapshot, Stage } from './types';

/** Row is what happened in a stage between two snapshots. */
export interface Row {
  name: string;
  stage: Stage;
  in: number; // accepted commands each second
  out: number; // commands that left, each second
  failures: number; // errors, shed and dead-lettered commands, and crashes that were tried again
  busy: number; // parts of the time of the stage's workers, from 0 to 1
  blocked: number;
  idle: number; // without work, while commands wait
  starved: number; // without work, and the queue is empty
  wait: Interval;
  service: Interval;
}

export const seconds = (s: Snapshot) => Date.parse(s.at) / 1000;

function ended(s: Stage): number {
  const c = s.counts;
  return (c.ok ?? 0) + (c.forwarded ?? 0) + (c.errors ?? 0) + (c.shed ?? 0) + (c.deadLettered ?? 0);
}

/** since is the growth of a count, from 0 if there is no earlier snapshot. */
function since(later: Stage, earlier: Stage | undefined, name: string): number {
  return Math.max(0, (later.counts[name] ?? 0) - (earlier?.counts[name] ?? 0));
}

export function rows(later: Snapshot, earlier: Snapshot | undefined): Row[] {
  const dt = earlier ? Math.max(seconds(later) - seconds(earlier), 0.001) : 0;
  return later.order.filter((name) => later.stages[name]).map((name) => row(name, later, earlier, dt));
}

function row(name: string, later: Snapshot, earlier: Snapshot | undefined, dt: number): Row {
  const stage = later.stages[name]!;
  const old = earlier?.stages[name];
  const perSecond = (n: number) => (dt > 0 ? n / dt : 0);
  const fresh = (count: string) => since(stage, old, count);
  const [busy, blocked, idle] = [fresh('busyNs'), fresh('blockedNs'), fresh('idleNs')];
  const pool = later.pools?.[stage.pool];
  // Workers of a shared pool are not the stage's own: their time at other
  // stages is, from here, time without work.
  const all = Math.max(busy + blocked + idle, pool ? dt * 1e9 * (pool.workers ?? 1) : 0, 1);
  const without = Math.max(all - busy - blocked, 0) / all;
  // Some commands are always on their way to a worker.
  const queued = (s: Stage | undefined) => s?.queue.length ?? 0;
  const waits = Math.min(queued(stage), queued(old)) > (stage.workers.live ?? 0);
  return {
    name,
    stage,
    in: perSecond(fresh('accepted')),
    out: perSecond(Math.max(0, ended(stage) - (old ? ended(old) : 0))),
    failures: earlier ? fresh('errors') + fresh('shed') + Math.max(fresh('deadLettered'), fresh('crashes')) : 0,
    busy: dt > 0 ? busy / all : 0,
    blocked: dt > 0 ? blocked / all : 0,
    idle: dt > 0 && waits ? without : 0,
    starved: dt > 0 && !waits ? without : 0,
    wait: difference(stage.wait, old?.wait),
    service: difference(stage.service, old?.service),
  };
}

const bounds = (d: Durations) => d.buckets ?? [];

/** Interval are durations of an interval, or since the start if the snapshots have no buckets. */
export type Interval = Durations & { whole?: boolean };

/** difference has the samples of later that earlier does not have. */
export function difference(later: Durations, earlier: Durations | undefined): Interval {
  if (!earlier || (later.count && !later.buckets) || (earlier.count && !earlier.buckets)) return { ...later, whole: true };
  const before = new Map(bounds(earlier));
  const buckets: [number, number][] = [];
  for (const [upTo, n] of bounds(later)) {
    const more = n - (before.get(upTo) ?? 0);
    if (more > 0) buckets.push([upTo, more]);
  }
  const count = buckets.reduce((sum, [, n]) => sum + n, 0);
  return {
    count,
    sumNs: later.sumNs - earlier.sumNs,
    p50Ns: quantile(buckets, count, 0.5),
    p99Ns: quantile(buckets, count, 0.99),
    maxNs: buckets.at(-1)?.[0] ?? 0,
    buckets,
  };
}

function quantile(buckets: [number, number][], count: number, q: number): number {
  let left = Math.ceil(count * q);
  for (const [upTo, n] of buckets) {
    left -= n;
    if (left <= 0) return upTo;
  }
  return 0;
}

/** state says in words what is special about a stage; empty if nothing is. */
export function state(s: Stage): string {
  if (s.drained) return 'drained';
  if (s.draining) return 'draining';
  if (s.paused) return 'paused';
  return '';
}

/** main is the largest part of the workers' time, in a word. */
export function main(r: Row): [string, number] {
  const parts: [string, number][] = [['busy', r.busy], ['blocked', r.blocked], ['idle', r.idle], ['starved', r.starved]];
  return parts.reduce((most, p) => (p[1] > most[1] ? p : most));
}

/** flows are the commands each second along each edge, by edgeKey. */
export function flows(later: Snapshot, earlier: Snapshot | undefined): Map<string, number> {
  const all = new Map<string, number>();
  const dt = earlier ? Math.max(seconds(later) - seconds(earlier), 0.001) : 1;
  for (const [from, stage] of Object.entries(later.stages)) {
    const old = new Map((earlier?.stages[from]?.edges ?? []).map((e) => [edgeKey(from, e.to, e.port), e.moved]));
    for (const e of stage.edges ?? []) {
      const key = edgeKey(from, e.to, e.port);
      all.set(key, earlier ? Math.max(0, e.moved - (old.get(key) ?? 0)) / dt : 0);
    }
  }
  return all;
}

export const edgeKey = (from: string, to: string, port: string) => JSON.stringify([from, to, port]);
