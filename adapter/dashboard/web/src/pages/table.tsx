import { computed, signal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { state, type Interval, type Row } from '../derive';
import { count, duration, none, percent, rate } from '../format';
import { href, param, setParams } from '../route';
import { stageRows } from '../store';
import { say } from '../ui/say';
import { matches } from '../ui/shell';
import { workers } from './graph';

interface Column {
  id: string;
  head: string;
  title: string;
  by: (r: Row) => number | string;
  text: (r: Row) => string;
}

const number = (id: string, head: string, title: string, by: (r: Row) => number, text: (n: number) => string): Column => ({ id, head, title, by, text: (r) => text(by(r)) });
const quantile = (id: string, head: string, title: string, of: (r: Row) => Interval, p: 'p50Ns' | 'p99Ns'): Column => ({
  id,
  head,
  title,
  by: (r) => (of(r).count ? of(r)[p] : -1),
  text: (r) => (of(r).count ? duration(of(r)[p]) + (of(r).whole ? ' *' : '') : none),
});
const total = (id: string, head: string, title: string, name: string): Column => number(id, head, title, (r) => r.stage.counts[name] ?? 0, count);

const columns: Column[] = [
  { id: 'stage', head: 'Stage', title: 'name', by: (r) => r.name, text: (r) => r.name },
  { id: 'state', head: 'State', title: 'paused, draining or drained', by: (r) => state(r.stage), text: (r) => state(r.stage) || 'open' },
  number('in', 'In', 'accepted commands each second', (r) => r.in, rate),
  number('out', 'Out', 'ended and forwarded commands each second', (r) => r.out, rate),
  { id: 'workers', head: 'Workers', title: 'workers there are, and most there may be', by: (r) => r.stage.workers.live ?? 0, text: workers },
  number('busy', 'Busy', 'part of the workers’ time in handlers', (r) => r.busy, percent),
  number('blocked', 'Blocked', 'part of the workers’ time in which they waited for a free slot in a next stage', (r) => r.blocked, percent),
  number('idle', 'Idle', 'part of the workers’ time without work although commands waited', (r) => r.idle, percent),
  number('starved', 'Starved', 'part of the workers’ time without work and with an empty queue', (r) => r.starved, percent),
  number('queue', 'Queue', 'commands in the queue', (r) => r.stage.queue.length ?? 0, count),
  number('slots', 'Slots', 'capacity of the queue', (r) => r.stage.queue.capacity ?? 0, count),
  number('oldest', 'Oldest', 'for how long the command that is taken next has waited', (r) => r.stage.queue.oldestNs ?? 0, duration),
  quantile('wait50', 'Wait p50', 'half of the commands waited at most so long in the queue', (r) => r.wait, 'p50Ns'),
  quantile('wait99', 'Wait p99', '99 % of the commands waited at most so long in the queue', (r) => r.wait, 'p99Ns'),
  quantile('service50', 'Service p50', 'half of the handlers took at most so long', (r) => r.service, 'p50Ns'),
  quantile('service99', 'Service p99', '99 % of the handlers took at most so long', (r) => r.service, 'p99Ns'),
  total('accepted', 'Accepted', 'accepted commands since the start', 'accepted'),
  total('ok', 'OK', 'commands that ended here with a result', 'ok'),
  total('forwarded', 'Forwarded', 'commands that were forwarded', 'forwarded'),
  total('errors', 'Errors', 'commands that ended here with an error', 'errors'),
  total('crashes', 'Crashes', 'tries that crashed their handler', 'crashes'),
  total('shed', 'Shed', 'commands that were dropped', 'shed'),
  total('dead', 'Dead', 'commands that ended here without an answer', 'deadLettered'),
];

/** parked is shown only where a stage has parked keys. */
const parked = number('parked', 'Parked', 'keys whose commands wait for the letter of one that failed', (r) => r.stage.queue.parkedKeys ?? 0, count);

const shownColumns = computed(() => (stageRows.value.some((r) => r.stage.queue.parkedKeys) || param('sort').endsWith('parked') ? [...columns, parked] : columns));

const sorted = computed(() => {
  const by = param('sort');
  const column = shownColumns.value.find((c) => c.id === by.replace(/^-/, ''));
  const all = stageRows.value.filter((r) => matches(r.name, state(r.stage)));
  if (!column) return all;
  const sign = by.startsWith('-') ? -1 : 1;
  return [...all].sort((a, b) => {
    const [x, y] = [column.by(a), column.by(b)];
    return sign * (typeof x === 'string' || typeof y === 'string' ? String(x).localeCompare(String(y)) : x - y);
  });
});

// Only the rows in view are made, so that a thousand stages cost no more than thirty.
const rowHeight = 33;
const view = signal({ top: 0, height: 800 });

export function TablePage() {
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const scroller = box.current!;
    const look = () => (view.value = { top: scroller.scrollTop, height: scroller.clientHeight });
    const o = new ResizeObserver(look);
    o.observe(scroller);
    scroller.addEventListener('scroll', look, { passive: true });
    return () => o.disconnect();
  }, []);
  const all = sorted.value;
  const first = all.length > 60 ? Math.max(0, Math.floor(view.value.top / rowHeight) - 10) : 0;
  const last = all.length > 60 ? Math.min(all.length, first + Math.ceil(view.value.height / rowHeight) + 20) : all.length;
  return (
    <>
      <div class="title">
        <h1>Table</h1>
        <span class="quiet">
          {count(all.length)} of {count(stageRows.value.length)} stages
        </span>
        {all.some((r) => r.wait.whole && r.wait.count) && <span class="quiet">* since the start: there is no histogram of ten seconds before this time</span>}
        <button type="button" onClick={() => void copy(all)}>
          Copy as text
        </button>
      </div>
      <div class="scroll tall" ref={box} tabIndex={0} role="region" aria-label="Table of stages">
        <table class="stages" aria-rowcount={all.length + 1}>
          <thead>
            <tr>
              {shownColumns.value.map((c) => (
                <th scope="col" aria-sort={order(c.id)} title={c.title}>
                  <button type="button" onClick={() => setParams({ sort: next(c.id) })}>
                    {c.head}
                    <span aria-hidden="true">{{ ascending: ' ▲', descending: ' ▼', none: '' }[order(c.id)]}</span>
                  </button>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {first > 0 && <Space rows={first} />}
            {all.slice(first, last).map((r, i) => (
              <tr key={r.name} data-stage={r.name} aria-rowindex={first + i + 2} data-item class={r.failures ? 'failing' : ''}>
                {shownColumns.value.map((c) =>
                  c.id === 'stage' ? (
                    <th scope="row">
                      <a href={href('stage', { name: r.name })}>{r.name}</a>
                    </th>
                  ) : (
                    <td data-col={c.id}>{c.text(r)}</td>
                  ),
                )}
              </tr>
            ))}
            {last < all.length && <Space rows={all.length - last} />}
          </tbody>
        </table>
        {all.length === 0 && <p class="empty">No stage is named so.</p>}
      </div>
    </>
  );
}

function Space({ rows }: { rows: number }) {
  return (
    <tr aria-hidden="true">
      <td colSpan={shownColumns.value.length} style={{ height: rows * rowHeight + 'px', padding: '0' }} />
    </tr>
  );
}

function order(id: string): 'ascending' | 'descending' | 'none' {
  const by = param('sort');
  return by === id ? 'ascending' : by === '-' + id ? 'descending' : 'none';
}

/** next goes from the largest first to the smallest first to the order of the pipeline. */
function next(id: string): string {
  return { none: '-' + id, descending: id, ascending: '' }[order(id)];
}

async function copy(all: Row[]): Promise<void> {
  const columns = shownColumns.value;
  const lines = [columns.map((c) => c.head), ...all.map((r) => columns.map((c) => c.text(r)))];
  const widths = columns.map((_, i) => Math.max(...lines.map((l) => l[i]!.length)));
  const text = lines.map((l) => l.map((cell, i) => (i ? cell.padStart(widths[i]!) : cell.padEnd(widths[i]!))).join('  ').trimEnd()).join('\n') + '\n';
  try {
    await navigator.clipboard.writeText(text);
    say('Copied');
  } catch (e) {
    say(`Cannot copy: ${(e as Error).message}`, true);
  }
}
