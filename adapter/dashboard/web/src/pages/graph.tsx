import { computed, signal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { edgeKey, flows, state, type Row } from '../derive';
import { count, duration, none, rate } from '../format';
import { layout, type Layout, type Link, type Node, type Place, type Route } from '../layout';
import { href, param, setParams } from '../route';
import { at, before, earlier, graph, snapshot, stageRows, verdict } from '../store';
import type { Feed, Verdict } from '../types';
import { Bar } from '../ui/bar';
import { matches } from '../ui/shell';

// Many stages are drawn small, with their names, rates and bars alone.
const many = 60;
const dense = computed(() => (snapshot.value?.order.length ?? 0) > many);
const box = computed(() =>
  dense.value ? { wide: 152, high: 58, feedWide: 110, feedHigh: 40, gap: 38 } : { wide: 200, high: 118, feedWide: 124, feedHigh: 58, gap: 54 },
);

const narrow = signal(matchMedia('(max-width: 640px)').matches);
matchMedia('(max-width: 640px)').addEventListener('change', (e) => (narrow.value = e.matches));

/** lanes are the group and the process of each stage. */
const lanes = computed(() => {
  const all = new Map<string, string>();
  for (const s of graph.value?.stages ?? []) {
    all.set(s.name, [s.process && 'process ' + s.process, s.group && 'group ' + s.group].filter(Boolean).join(', '));
  }
  return all;
});

const collapsed = computed(() => new Set(param('folded').split('\n').filter(Boolean)));
const laneOf = (stage: string) => lanes.value.get(stage) ?? '';
const laneId = (lane: string) => JSON.stringify(['lane', lane]);
const feedId = (feed: string) => JSON.stringify(['feed', feed]);

/** nodeOf is the node that shows a stage: its own, or the one of its folded lane. */
const nodeOf = (stage: string) => (collapsed.value.has(laneOf(stage)) ? laneId(laneOf(stage)) : stage);

// The structure is a text, so that the layout is computed again only if it
// changes, and not with each snapshot.
const structure = computed(() => {
  const s = snapshot.value;
  if (!s) return '';
  const nodes = new Map<string, Node>();
  const size = (length: number, breadth: number) => (narrow.value ? { length: breadth, breadth: length } : { length, breadth });
  const links = new Map<string, Link>();
  const link = (from: string, to: string, key: string, back: boolean) => links.set(key, { from, to, key, back });
  for (const [name, f] of Object.entries(s.feeds ?? {})) {
    if (!s.stages[f.to]) continue;
    nodes.set(feedId(name), { id: feedId(name), lane: laneOf(f.to), ...size(box.value.feedWide, box.value.feedHigh) });
    link(feedId(name), nodeOf(f.to), feedId(name), false);
  }
  for (const name of s.order) {
    const id = nodeOf(name);
    nodes.set(id, { id, lane: laneOf(name), ...size(box.value.wide, box.value.high) });
    for (const e of s.stages[name]?.edges ?? []) {
      const to = nodeOf(e.to);
      if (collapsed.value.size === 0) link(name, e.to, edgeKey(name, e.to, e.port), e.back);
      else if (id !== to) link(id, to, edgeKey(id, to, ''), e.back);
    }
  }
  return JSON.stringify([[...nodes.values()], [...links.values()]]);
});

const placed = computed<Layout | null>(() => {
  if (!structure.value) return null;
  const [nodes, links] = JSON.parse(structure.value) as [Node[], Link[]];
  return layout(nodes, links, box.value.gap);
});

export function GraphPage() {
  const l = placed.value;
  const frame = useRef<HTMLDivElement>(null);
  const zoom = Number(param('zoom')) || 0;
  const size = l && (narrow.value ? { x: l.breadth, y: l.length } : { x: l.length, y: l.breadth });
  const fit = signalFit(frame, size);
  const scale = zoom || fit;
  useEffect(() => {
    if (param('q')) frame.current?.querySelector('.stage:not(.dim)')?.scrollIntoView({ block: 'nearest', inline: 'center' });
  }, [param('q')]);
  const named = (l?.lanes.length ?? 0) > 1 || !!l?.lanes[0]?.name;
  return (
    <>
      <h1 class="hidden">Graph</h1>
      <VerdictLine />
      <div class="bar-of-tools" role="group" aria-label="Size of the graph">
        <button type="button" aria-label="Smaller" onClick={() => setParams({ zoom: (scale / 1.25).toFixed(2) })}>
          −
        </button>
        <button type="button" aria-label="Larger" onClick={() => setParams({ zoom: (scale * 1.25).toFixed(2) })}>
          +
        </button>
        <button type="button" aria-pressed={!zoom} onClick={() => setParams({ zoom: '' })}>
          Fit
        </button>
        {named &&
          l!.lanes.filter((lane) => lane.name).map((lane) => (
            <button type="button" aria-pressed={collapsed.value.has(lane.name)} onClick={() => fold(lane.name)}>
              {collapsed.value.has(lane.name) ? '▸' : '▾'} {lane.name}
            </button>
          ))}
        <Legend />
      </div>
      <div class="graph" ref={frame} tabIndex={0} role="region" aria-label="Stages and edges">
        {l && size && (
          <div class="sheet" style={{ width: (size.x + 2 * margin) * scale + 'px', height: (size.y + 2 * margin) * scale + 'px' }}>
            <div class={'drawing' + (dense.value ? ' dense' : '')} style={{ transform: `scale(${scale})`, width: size.x + 2 * margin + 'px', height: size.y + 2 * margin + 'px' }}>
              {named && <Lanes l={l} />}
              <Edges l={l} />
              <Nodes l={l} />
            </div>
          </div>
        )}
      </div>
    </>
  );
}

const margin = 26;

const room = signal(0);

/** signalFit is the scale at which the whole length of the graph is seen, within what can be read. */
function signalFit(frame: { current: HTMLDivElement | null }, size: { x: number; y: number } | null): number {
  useEffect(() => {
    const box = frame.current!;
    const o = new ResizeObserver(() => (room.value = box.clientWidth));
    o.observe(box);
    return () => o.disconnect();
  }, []);
  if (!size || !room.value) return 1;
  return Math.min(1, Math.max(dense.value ? 0.6 : narrow.value ? 0.7 : 0.55, room.value / (size.x + 2 * margin + 2)));
}

function fold(lane: string): void {
  const all = new Set(collapsed.value);
  if (!all.delete(lane)) all.add(lane);
  setParams({ folded: [...all].join('\n') });
}

function VerdictLine() {
  const [v, old] = [verdict.value, before.value];
  return (
    <p class="verdict" id="verdict">
      <b>{v?.stage ? '◆ Bottleneck ' : '◇ '}</b>
      {v ? text(v) : at.value === null ? 'No verdict yet.' : 'The verdict of this time is not known.'}
      {v && old && <span class="quiet"> A minute ago: {same(v, old) ? 'the same.' : text(old)}</span>}
    </p>
  );
}

const text = (v: Verdict) => v.text || 'no stage limits the pipeline';
const same = (a: Verdict, b: Verdict) => a.stage === b.stage && a.limit === b.limit;

function Legend() {
  return (
    <ul class="legend" aria-label="Legend">
      {['busy', 'blocked', 'idle', 'starved'].map((part) => (
        <li>
          <span class={'swatch ' + part} aria-hidden="true" /> {part}
        </li>
      ))}
      <li>wait, service: 99 % within</li>
    </ul>
  );
}

const xy = (p: Place): [number, number] => (narrow.value ? [p.v + margin, p.u + margin] : [p.u + margin, p.v + margin]);

function Lanes({ l }: { l: Layout }) {
  return (
    <>
      {l.lanes.map((lane) => {
        const [x, y] = xy({ u: -14, v: lane.from - 6 });
        const across = lane.to - lane.from + 12;
        const size = narrow.value ? { width: across, height: l.length + 28 } : { width: l.length + 28, height: across };
        return (
          <div class="lane" style={{ left: x + 'px', top: y + 'px', width: size.width + 'px', height: size.height + 'px' }}>
            <span>{lane.name || 'no group'}</span>
          </div>
        );
      })}
    </>
  );
}

function Edges({ l }: { l: Layout }) {
  const rates = flows(snapshot.value!, earlier.value);
  const [x, y] = xy({ u: l.length + margin, v: l.breadth + margin });
  const most = Math.max(...rates.values(), 1);
  return (
    <svg class="edges" width={x} height={y + 40} aria-hidden="true">
      <defs>
        <marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" markerUnits="userSpaceOnUse" orient="auto">
          <path d="M0 0 8 4 0 8z" />
        </marker>
      </defs>
      {l.routes.map((r) => {
        const flow = flowOf(r, rates);
        const label = middle(r);
        return (
          <g class={(r.back ? 'back' : '') + (flow > 0 ? ' flows' : '')}>
            <path d={path(r)} stroke-width={1.2 + (3 * Math.log1p(flow)) / Math.log1p(most)} marker-end="url(#arrow)" />
            {flow > 0 && !dense.value && (
              <text x={label[0]} y={label[1]} text-anchor="middle">
                {r.back ? '↺ ' : ''}
                {rate(flow)}
              </text>
            )}
          </g>
        );
      })}
    </svg>
  );
}

/** flowOf is the flow of an edge, of a feed, or of all edges between two folded lanes. */
function flowOf(r: Route, rates: Map<string, number>): number {
  if (!collapsed.value.size) return rates.get(r.key) ?? feedRate(r);
  let sum = feedRate(r);
  for (const [key, flow] of rates) {
    const [from, to] = JSON.parse(key) as [string, string];
    if (nodeOf(from) === r.from && nodeOf(to) === r.to) sum += flow;
  }
  return sum;
}

function feedRate(r: Route): number {
  const s = snapshot.value!;
  const e = earlier.value;
  const name = Object.keys(s.feeds ?? {}).find((f) => feedId(f) === r.from);
  if (!name || !e) return 0;
  const dt = (Date.parse(s.at) - Date.parse(e.at)) / 1000;
  return dt > 0 ? Math.max(0, fed(s.feeds![name]!) - fed(e.feeds?.[name])) / dt : 0;
}

const fed = (f: Feed | undefined) => Number(f?.submitted ?? f?.read ?? 0);

/** half is half the size of a node. */
const half = (id: string) => {
  const feed = id.startsWith('["feed"');
  const [x, y] = feed ? [box.value.feedWide / 2, box.value.feedHigh / 2] : [box.value.wide / 2, box.value.high / 2];
  return narrow.value ? { u: y, v: x } : { u: x, v: y };
};

/** path is the curve of an edge: forward from side to side, backward below the nodes. */
function path(r: Route): string {
  const first = r.points[0]!;
  const last = r.points.at(-1)!;
  const a = half(r.from);
  const b = half(r.to);
  const p = (u: number, v: number) => xy({ u, v }).map((n) => n.toFixed(1)).join(' ');
  if (r.from === r.to) {
    const v = first.v + a.v;
    return `M${p(first.u + a.u * 0.5, v)}C${p(first.u + a.u * 0.5, v + 36)} ${p(first.u - a.u * 0.5, v + 36)} ${p(first.u - a.u * 0.5, v)}`;
  }
  if (r.back && r.points.length === 2) {
    const [va, vb] = [first.v + a.v, last.v + b.v];
    const low = Math.max(va, vb) + 44;
    return `M${p(first.u, va)}C${p(first.u, low)} ${p(last.u, low)} ${p(last.u, vb)}`;
  }
  const between = r.points.slice(1, -1);
  if (!r.back || last.u >= first.u) {
    const points = [{ u: first.u + a.u, v: first.v }, ...between, { u: last.u - b.u, v: last.v }];
    return `M${p(points[0]!.u, points[0]!.v)}` + curves(points, p);
  }
  // Out of the lower or upper side of the source, along the gap beside it, past
  // the ranks between, and into the target in the same way.
  const leave = beside(first, a.v, between[0]!);
  const arrive = beside(last, b.v, between.at(-1)!);
  const points = [{ u: first.u - a.u, v: leave.gap }, ...between, { u: last.u + b.u, v: arrive.gap }];
  return (
    `M${p(first.u, leave.side)}C${p(first.u, leave.gap)} ${p(first.u, leave.gap)} ${p(points[0]!.u, points[0]!.v)}` +
    curves(points, p) +
    `C${p(last.u, arrive.gap)} ${p(last.u, arrive.gap)} ${p(last.u, arrive.side)}`
  );
}

/** beside is the side of a node that is nearer to a point, and the middle of the gap there. */
function beside(node: Place, half: number, to: Place): { side: number; gap: number } {
  const out = to.v >= node.v ? 1 : -1;
  return { side: node.v + out * half, gap: node.v + out * (half + 11) };
}

/** curves goes from point to point, along the flow at each of them. */
function curves(points: Place[], p: (u: number, v: number) => string): string {
  return points
    .slice(1)
    .map((to, i) => {
      const from = points[i]!;
      const k = (to.u - from.u) / 2;
      return `C${p(from.u + k, from.v)} ${p(to.u - k, to.v)} ${p(to.u, to.v)}`;
    })
    .join('');
}

/** middle is where the label of an edge stands. */
function middle(r: Route): [number, number] {
  const first = r.points[0]!;
  const last = r.points.at(-1)!;
  if (r.back && r.points.length <= 2) {
    const v = Math.max(first.v + half(r.from).v, last.v + half(r.to).v) + (r.from === r.to ? 27 : 33);
    return near((first.u + last.u) / 2, v, narrow.value ? [16, 4] : [0, -4]);
  }
  const next = r.points[1]!;
  const [u1, u2] = r.points.length > 2 ? [next.u, r.points[2]!.u] : [first.u + half(r.from).u, last.u - half(r.to).u];
  return near((u1 + u2) / 2, r.points.length > 2 ? next.v : (first.v + last.v) / 2, narrow.value ? [22, 4] : [0, -6]);
}

function near(u: number, v: number, [dx, dy]: number[]): [number, number] {
  const [x, y] = xy({ u, v });
  return [x + dx!, y + dy!];
}

function Nodes({ l }: { l: Layout }) {
  const s = snapshot.value!;
  const folded = [...collapsed.value].filter((lane) => l.places.has(laneId(lane)));
  const { wide, high, feedWide, feedHigh } = box.value;
  const placeOf = (id: string, w: number, h: number) => {
    const [x, y] = xy(l.places.get(id)!);
    return { left: x - w / 2 + 'px', top: y - h / 2 + 'px', width: w + 'px', height: h + 'px' };
  };
  return (
    <ul class="nodes" aria-label="Stages">
      {Object.entries(s.feeds ?? {}).map(
        ([name, f]) =>
          l.places.has(feedId(name)) && (
            <li class={'feed' + (f.error ? ' failing' : '')} style={placeOf(feedId(name), feedWide, feedHigh)} title={f.error || undefined}>
              <b>{name}</b>
              <span>{f.error ? '✕ ' : ''}{feedState(f)}</span>
            </li>
          ),
      )}
      {folded.map((lane) => (
        <li class="stage folded" style={placeOf(laneId(lane), wide, high)}>
          <Folded lane={lane} />
        </li>
      ))}
      {stageRows.value.map((r) => l.places.has(r.name) && nodeOf(r.name) === r.name && <StageNode r={r} place={placeOf(r.name, wide, high)} />)}
    </ul>
  );
}

function feedState(f: Feed): string {
  return f.state ?? (f.ended ? 'ended' : f.running ? 'running' : 'waiting');
}

function Folded({ lane }: { lane: string }) {
  const all = stageRows.value.filter((r) => laneOf(r.name) === lane);
  const sum = (f: (r: Row) => number) => all.reduce((n, r) => n + f(r), 0);
  return (
    <button type="button" data-item onClick={() => fold(lane)} aria-label={`Unfold ${lane}`}>
      <b>▸ {lane}</b>
      <span>{all.length} stages</span>
      <span>queued {count(sum((r) => r.stage.queue.length ?? 0))}</span>
      <span>workers {count(sum((r) => r.stage.workers.live ?? 0))}</span>
    </button>
  );
}

function StageNode({ r, place }: { r: Row; place: Record<string, string> }) {
  const s = r.stage;
  const limit = verdict.value?.stage === r.name;
  const word = state(s);
  const classes = ['stage', limit && 'limit', r.failures && 'failing', word && 'held', !matches(r.name) && 'dim'].filter(Boolean).join(' ');
  return (
    <li class={classes} style={place} data-stage={r.name}>
      <a href={href('stage', { name: r.name })} data-item title={r.name}>
        <span class="head">
          <b>{r.name}</b>
          {limit && <em title="bottleneck">◆{dense.value ? '' : ' bottleneck'}</em>}
          {word && <em title={word}>❚❚{dense.value ? '' : ' ' + word}</em>}
          {r.failures > 0 && <em class="bad">▲ {count(r.failures)}{dense.value ? '' : ' failed'}</em>}
        </span>
        {dense.value ? <span class="num">{rate(r.in)}</span> : <Details r={r} />}
        <Bar row={r} words={!dense.value} />
      </a>
    </li>
  );
}

function Details({ r }: { r: Row }) {
  const s = r.stage;
  const full = s.queue.capacity ? Math.min((s.queue.length ?? 0) / s.queue.capacity, 1) : 0;
  return (
    <>
        <span class="pair">
          <span>
            <span class="num" data-v="in">{rate(r.in)}</span>
          </span>
          <span>
            workers <span class="num" data-v="workers">{workers(r)}</span>
          </span>
        </span>
        <span class="pair">
          <span>
            queue <span class="num" data-v="queue">{count(s.queue.length)}/{count(s.queue.capacity)}</span>
          </span>
          <span class={'fill' + (full > 0.8 ? ' high' : '')} aria-hidden="true">
            <span style={{ width: full * 100 + '%' }} />
          </span>
        </span>
        <span class="pair">
          <span>
            wait <span class="num">{r.wait.count ? duration(r.wait.p99Ns) : none}</span>
          </span>
          <span>
            service <span class="num">{r.service.count ? duration(r.service.p99Ns) : none}</span>
          </span>
        </span>
    </>
  );
}

/** workers writes the workers there are and may be; those of a shared pool are marked. */
export function workers(r: Row): string {
  const w = r.stage.workers;
  const pool = r.stage.pool && r.stage.pool !== r.name ? snapshot.value?.pools?.[r.stage.pool] : undefined;
  return pool ? `${w.busy ?? 0} of pool ${r.stage.pool}` : `${w.live ?? 0}/${w.most ?? 0}`;
}
