// A layered layout of a graph with loops, after Sugiyama, Tagawa and Toda
// (1981): break cycles, rank by the longest path, order each rank by
// barycenters, and place the nodes near their neighbours. Lanes are bands that
// nodes do not leave. It runs in some milliseconds for 200 nodes, so it needs
// no worker.

export interface Node {
  id: string;
  lane: string;
  length: number; // along the flow
  breadth: number; // across it
}

export interface Link {
  from: string;
  to: string;
  key: string;
  back: boolean;
}

export interface Place {
  u: number; // the middle, along the flow
  v: number; // the middle, across it
}

export interface Route extends Link {
  points: Place[]; // from the source to the target, by way of the ranks between
}

export interface Lane {
  name: string;
  from: number; // across the flow
  to: number;
}

export interface Layout {
  places: Map<string, Place>;
  routes: Route[];
  lanes: Lane[];
  length: number;
  breadth: number;
}

interface Item {
  id: string;
  lane: number;
  rank: number;
  length: number;
  breadth: number;
  v: number;
  before: Item[];
  after: Item[];
}

const gapAcross = 22;
const laneGap = 30;
const laneMargin = 14;
const detour = 14; // the breadth of an edge that passes a rank

export function layout(nodes: Node[], links: Link[], gapAlong: number): Layout {
  const lanes = [...new Set(nodes.map((n) => n.lane))];
  const items = new Map<string, Item>();
  for (const n of nodes) {
    items.set(n.id, { id: n.id, lane: lanes.indexOf(n.lane), rank: 0, length: n.length, breadth: n.breadth, v: 0, before: [], after: [] });
  }
  const known = links.filter((l) => items.has(l.from) && items.has(l.to));
  const loops = cycles(nodes, known);
  rank(items, known, loops);
  const chains = new Map<Link, Item[]>();
  for (const l of known) if (l.from !== l.to) chains.set(l, chain(items, l, loops.has(l)));
  const ranks = grouped([...items.values(), ...[...chains.values()].flatMap((c) => c.slice(1, -1))]);
  order(ranks);
  const bands = place(ranks, lanes);
  const { starts, length } = along(ranks, gapAlong);
  const where = (i: Item): Place => ({ u: starts[i.rank]! + columnLength(ranks[i.rank]!) / 2, v: i.v });
  // An edge goes straight past a rank, so that it crosses no node of it.
  const passes = (i: Item): Place[] => (i.id ? [where(i)] : [0, columnLength(ranks[i.rank]!)].map((u) => ({ u: starts[i.rank]! + u, v: i.v })));
  return {
    places: new Map([...items].map(([id, i]) => [id, where(i)])),
    routes: known.map((l) => {
      const c = chains.get(l)?.flatMap(passes) ?? [where(items.get(l.from)!)];
      return { ...l, back: l.back || loops.has(l), points: loops.has(l) && l.from !== l.to ? c.reverse() : c };
    }),
    lanes: bands,
    length,
    breadth: Math.max(...bands.map((b) => b.to), 0),
  };
}

/** cycles are the links to be drawn backwards: those that say so, and those that close a further loop. */
function cycles(nodes: Node[], links: Link[]): Set<Link> {
  const backwards = new Set(links.filter((l) => l.back || l.from === l.to));
  const out = new Map<string, Link[]>();
  for (const l of links) if (!backwards.has(l)) out.set(l.from, [...(out.get(l.from) ?? []), l]);
  const seen = new Map<string, 'open' | 'done'>();
  for (const root of nodes) {
    if (seen.has(root.id)) continue;
    // A stack of our own: a chain may be longer than the program's.
    const stack: { id: string; next: number }[] = [{ id: root.id, next: 0 }];
    seen.set(root.id, 'open');
    while (stack.length) {
      const top = stack.at(-1)!;
      const l = out.get(top.id)?.[top.next++];
      if (!l) {
        seen.set(top.id, 'done');
        stack.pop();
      } else if (seen.get(l.to) === 'open') {
        backwards.add(l);
      } else if (!seen.has(l.to)) {
        seen.set(l.to, 'open');
        stack.push({ id: l.to, next: 0 });
      }
    }
  }
  return backwards;
}

/** rank numbers the columns: each node is behind all nodes before it, and close to the first one behind it. */
function rank(items: Map<string, Item>, links: Link[], loops: Set<Link>): void {
  const forward = links.filter((l) => !loops.has(l));
  const left = new Map<string, number>();
  for (const l of forward) left.set(l.to, (left.get(l.to) ?? 0) + 1);
  const ready = [...items.keys()].filter((id) => !left.get(id));
  const out = new Map<string, Link[]>();
  for (const l of forward) out.set(l.from, [...(out.get(l.from) ?? []), l]);
  for (let i = 0; i < ready.length; i++) {
    for (const l of out.get(ready[i]!) ?? []) {
      const to = items.get(l.to)!;
      to.rank = Math.max(to.rank, items.get(l.from)!.rank + 1);
      left.set(l.to, left.get(l.to)! - 1);
      if (!left.get(l.to)) ready.push(l.to);
    }
  }
  const fed = new Set(forward.map((l) => l.to));
  for (const [id, i] of items) {
    const next = (out.get(id) ?? []).map((l) => items.get(l.to)!.rank);
    if (!fed.has(id) && next.length) i.rank = Math.max(Math.min(...next) - 1, 0);
  }
}

/** chain joins the ends of a link by an item in each rank between them, in the order of ranks. */
function chain(items: Map<string, Item>, l: Link, reversed: boolean): Item[] {
  let [a, b] = [items.get(l.from)!, items.get(l.to)!];
  if (reversed) [a, b] = [b, a];
  const all = [a];
  for (let r = a.rank + 1; r < b.rank; r++) {
    all.push({ id: '', lane: a.lane, rank: r, length: 0, breadth: detour, v: 0, before: [], after: [] });
  }
  all.push(b);
  for (let i = 1; i < all.length; i++) {
    all[i - 1]!.after.push(all[i]!);
    all[i]!.before.push(all[i - 1]!);
  }
  return all;
}

function grouped(all: Item[]): Item[][] {
  const ranks: Item[][] = [];
  for (const i of all) (ranks[i.rank] ??= []).push(i);
  return Array.from(ranks, (r) => r ?? []);
}

/** order sorts each rank by lanes, and within a lane by the mean place of the neighbours. */
function order(ranks: Item[][]): void {
  const number = (r: Item[]) => r.forEach((i, n) => (i.v = n));
  for (const r of ranks) {
    r.sort((a, b) => a.lane - b.lane);
    number(r);
  }
  let best = ranks.map((r) => [...r]);
  let fewest = crossings(ranks);
  const sweeps = ranks.reduce((n, r) => n + r.length, 0) > 4000 ? 4 : 16; // many take a second
  for (let sweep = 0; sweep < sweeps && fewest > 0; sweep++) {
    const down = sweep % 2 === 0;
    for (const r of down ? ranks : [...ranks].reverse()) {
      const key = new Map(r.map((i) => [i, mean(down ? i.before : i.after) ?? i.v]));
      r.sort((a, b) => a.lane - b.lane || key.get(a)! - key.get(b)!);
      number(r);
    }
    const n = crossings(ranks);
    if (n < fewest) [fewest, best] = [n, ranks.map((r) => [...r])];
  }
  best.forEach((r, n) => {
    ranks[n] = r;
    number(r);
  });
}

function mean(all: Item[]): number | undefined {
  return all.length ? all.reduce((sum, i) => sum + i.v, 0) / all.length : undefined;
}

/** crossings counts the pairs of edges between two ranks that are in the one order here and in the other there. */
function crossings(ranks: Item[][]): number {
  let n = 0;
  for (const r of ranks) {
    const ends = r.flatMap((i) => i.after.map((j) => j.v).sort((a, b) => a - b)); // r is in order of v
    // A Fenwick tree counts the earlier edges that end further on.
    const tree = new Int32Array(Math.max(...ends, 0) + 2);
    ends.forEach((end, before) => {
      let left = 0;
      for (let k = end + 1; k > 0; k -= k & -k) left += tree[k]!;
      n += before - left;
      for (let k = end + 1; k < tree.length; k += k & -k) tree[k]!++;
    });
  }
  return n;
}

/** place gives each item its middle across the flow, and each lane its band. */
function place(ranks: Item[][], names: string[]): Lane[] {
  const bands: Lane[] = [];
  let from = 0;
  names.forEach((name, lane) => {
    const rows = ranks.map((r) => r.filter((i) => i.lane === lane)).filter((r) => r.length);
    const breadth = Math.max(...rows.map(extent), 0);
    const band = { name, from, to: from + breadth + 2 * laneMargin };
    bands.push(band);
    const middle = (band.from + band.to) / 2;
    for (const r of rows) {
      let v = middle - extent(r) / 2;
      for (const i of r) {
        i.v = v + i.breadth / 2;
        v += i.breadth + gapAcross;
      }
    }
    from = band.to + laneGap;
  });
  for (let sweep = 0; sweep < 8; sweep++) {
    for (const r of sweep % 2 ? [...ranks].reverse() : ranks) {
      bands.forEach((band, lane) => settle(r.filter((i) => i.lane === lane), band, sweep % 2 === 1));
    }
  }
  return bands;
}

const extent = (r: Item[]) => r.reduce((sum, i) => sum + i.breadth + gapAcross, -gapAcross);

/**
 * settle moves the items of a rank next to their neighbours, as near as their
 * order and the band allow: the least squares under an order are the means of
 * the runs that would overlap (pool adjacent violators).
 */
function settle(r: Item[], band: Lane, towardsAfter: boolean): void {
  if (!r.length) return;
  let offset = 0;
  const offsets = r.map((i, n) => (offset += n ? (r[n - 1]!.breadth + i.breadth) / 2 + gapAcross : 0));
  const runs: { sum: number; n: number }[] = [];
  r.forEach((i, n) => {
    const near = towardsAfter ? (mean(i.after) ?? mean(i.before)) : (mean(i.before) ?? mean(i.after));
    runs.push({ sum: (near ?? i.v) - offsets[n]!, n: 1 });
    while (runs.length > 1 && runs.at(-2)!.sum / runs.at(-2)!.n > runs.at(-1)!.sum / runs.at(-1)!.n) {
      const { sum, n } = runs.pop()!;
      runs.at(-1)!.sum += sum;
      runs.at(-1)!.n += n;
    }
  });
  const low = band.from + laneMargin + r[0]!.breadth / 2;
  const high = band.to - laneMargin - r.at(-1)!.breadth / 2 - offsets.at(-1)!;
  let n = 0;
  for (const run of runs) {
    const v = Math.min(Math.max(run.sum / run.n, low), Math.max(high, low));
    for (let k = 0; k < run.n; k++, n++) r[n]!.v = v + offsets[n]!;
  }
}

const columnLength = (r: Item[]) => Math.max(...r.map((i) => i.length), 0);

function along(ranks: Item[][], gapAlong: number): { starts: number[]; length: number } {
  const starts: number[] = [];
  let u = 0;
  for (const r of ranks) {
    starts.push(u);
    u += columnLength(r) + gapAlong;
  }
  return { starts, length: Math.max(u - gapAlong, 0) };
}
