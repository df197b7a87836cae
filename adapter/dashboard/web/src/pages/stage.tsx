import { signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { refreshKeys, refreshTimers, refreshWork } from '../api';
import { difference, state, type Interval } from '../derive';
import { count, date, duration, label, rate, short } from '../format';
import { href, param, setParams } from '../route';
import { at, changes, earlier, enabled, file, graph, info, keys, long, snapshot, stageRows, timers, verdict, work } from '../store';
import type { Durations, Stage } from '../types';
import { Action, run } from '../ui/actions';
import { Bar } from '../ui/bar';
import { Chart } from '../ui/chart';
import { answers } from '../ui/elsewhere';
import { Histogram } from '../ui/histogram';
import { change } from './decisions';
import { workers } from './graph';
import { busySeries, growth, mostSeries, queuedSeries, times, workersSeries } from './series';

export function StagePage() {
  const s = snapshot.value!;
  const name = param('name') || verdict.value?.stage || s.order[0] || '';
  const row = stageRows.value.find((r) => r.name === name);
  return (
    <>
      <div class="title">
        <h1>{name || 'Stage'}</h1>
        {row && state(row.stage) && <span class="chip note">❚❚ {state(row.stage)}</span>}
        {!!row?.stage.queue.parkedKeys && (
          <a class="chip note parked" href={href('failures', { q: name })} title="The commands of these keys wait until the letter of one that failed is retried or dropped">
            ❚❚ {count(row.stage.queue.parkedKeys)} {row.stage.queue.parkedKeys === 1 ? 'key' : 'keys'} parked
          </a>
        )}
        {verdict.value?.stage === name && <span class="chip note">◆ bottleneck</span>}
        <label>
          Stage{' '}
          <select value={name} onChange={(e) => setParams({ name: e.currentTarget.value })}>
            {s.order.map((n) => (
              <option value={n}>{n}</option>
            ))}
          </select>
        </label>
      </div>
      {!row && <p class="empty">There is no stage of this name at this time.</p>}
      {row && (
        <>
          <Actions name={name} s={row.stage} />
          <div class="numbers-row">
            <Figure name="In" text={rate(row.in)} />
            <Figure name="Out" text={rate(row.out)} />
            <Figure name="Workers" text={workers(row)} />
            <Figure name="Queue" text={`${count(row.stage.queue.length)} of ${count(row.stage.queue.capacity)}`} />
            <Figure name="Oldest" text={duration(row.stage.queue.oldestNs)} />
            <div class="figure">
              <span class="quiet">Workers’ time</span>
              <Bar row={row} />
            </div>
          </div>
          <div class="columns charts">
            <Chart
              title="Commands each second"
              summary={`Rates of ${name} over the time: in ${rate(row.in)}, out ${rate(row.out)}`}
              times={times()}
              lines={[
                { label: 'in', colour: 'busy', values: growth(name, ['accepted']) },
                { label: 'out', colour: 'blocked', dash: [5, 3], values: growth(name, ['ok', 'forwarded', 'errors', 'shed', 'deadLettered']) },
                { label: 'failed', colour: 'bad', dash: [2, 2], values: growth(name, ['errors', 'shed', 'deadLettered']) },
              ]}
              format={short}
            />
            <Chart
              title="Workers"
              summary={`Workers of ${name} over the time`}
              times={times()}
              lines={[
                { label: 'there', colour: 'busy', values: workersSeries(name) },
                { label: 'busy', colour: 'blocked', dash: [5, 3], values: busySeries(name) },
                { label: 'most', colour: 'muted', dash: [2, 2], values: mostSeries(name) },
              ]}
              marks={changes.value.filter((c) => c.stage === name).map((c) => Date.parse(c.at))}
              format={short}
            />
            <Chart
              title="Queue"
              summary={`Commands in the queue of ${name} over the time, now ${count(row.stage.queue.length)}`}
              times={times()}
              lines={[{ label: 'queued', colour: 'busy', values: queuedSeries(name) }]}
              format={short}
            />
          </div>
          <Times name={name} s={row.stage} />
          <div class="columns">
            <Numbers title="Counts since the start" id="counts" of={row.stage.counts} />
            <Numbers title="Queue" id="queue" of={row.stage.queue} />
            <Numbers title="Workers" id="workers" of={row.stage.workers} />
            <Reasons s={row.stage} />
            <AtWork name={name} />
            <Hottest name={name} s={row.stage} />
            <Timers name={name} />
            <Edges name={name} s={row.stage} />
            <Latest name={name} />
          </div>
        </>
      )}
    </>
  );
}

function Figure({ name, text }: { name: string; text: string }) {
  return (
    <div class="figure">
      <span class="quiet">{name}</span>
      <b class="num">{text}</b>
    </div>
  );
}

/** Times compares the histograms of the last ten seconds with the ones of some minutes ago, and has the ones since the start. */
function Times({ name, s }: { name: string; s: Stage }) {
  const old = earlier.value?.stages[name];
  const [from, to] = [long.value?.from.stages[name], long.value?.to.stages[name]];
  const recently = (of: (s: Stage) => Durations): Interval => (old ? difference(of(s), of(old)) : { ...of(s), whole: true });
  const before = (of: (s: Stage) => Durations) => (from && to ? difference(of(to), of(from)) : undefined);
  return (
    <div class="columns">
      {recently((s) => s.wait).whole || (
        <>
          <Histogram title="Wait, last ten seconds" d={recently((s) => s.wait)} before={before((s) => s.wait)} />
          <Histogram title="Service, last ten seconds" d={recently((s) => s.service)} before={before((s) => s.service)} />
        </>
      )}
      <Histogram title="Wait since the start" d={s.wait} />
      <Histogram title="Service since the start" d={s.service} />
    </div>
  );
}

function Numbers({ title, id, of }: { title: string; id: string; of: { [name: string]: number } }) {
  const all = Object.entries(of).filter(([, v]) => typeof v === 'number' && v !== 0);
  return (
    <section aria-label={title}>
      <h2>{title}</h2>
      {all.length === 0 && <p class="quiet">all zero</p>}
      {all.length > 0 && (
        <dl class="facts num" data-of={id}>
          {all.map(([name, v]) => (
            <>
              <dt>{label(name)}</dt>
              <dd data-v={name}>{name.endsWith('Ns') ? duration(v) : count(v)}</dd>
            </>
          ))}
        </dl>
      )}
    </section>
  );
}

function Reasons({ s }: { s: Stage }) {
  const all = Object.entries(s.reasons ?? {});
  if (!all.length) return null;
  return (
    <section aria-label="Reasons">
      <h2>Reasons</h2>
      <dl class="facts num">
        {all.map(([what, n]) => (
          <>
            <dt>{what}</dt>
            <dd>{count(n)}</dd>
          </>
        ))}
      </dl>
    </section>
  );
}

function Edges({ name, s }: { name: string; s: Stage }) {
  const into = Object.entries(snapshot.value!.stages).flatMap(([from, x]) => (x.edges ?? []).filter((e) => e.to === name).map((e) => ({ ...e, from })));
  const feeds = Object.entries(snapshot.value!.feeds ?? {}).filter(([, f]) => f.to === name);
  const kind = graph.value?.stages?.find((x) => x.name === name);
  const some = feeds.length || into.length || s.edges?.length;
  const facts = some || kind?.group || s.process || s.version;
  return (
    <section aria-label="Edges">
      <h2>Edges</h2>
      {!some && <p class="quiet">none</p>}
      <dl class="facts num" hidden={!facts}>
        {feeds.map(([feed]) => (
          <>
            <dt>feed</dt>
            <dd>{feed}</dd>
          </>
        ))}
        {into.map((e) => (
          <>
            <dt>{e.back ? '↺ from' : 'from'}</dt>
            <dd>
              <a href={href('stage', { name: e.from })}>{e.from}</a> {count(e.moved)}
            </dd>
          </>
        ))}
        {(s.edges ?? []).map((e) => (
          <>
            <dt>{e.back ? '↺ to' : 'to'}</dt>
            <dd>
              <a href={href('stage', { name: e.to })}>{e.to}</a> {e.port && <span class="quiet">by {e.port}</span>} {count(e.moved)}
            </dd>
          </>
        ))}
        {kind?.group && (
          <>
            <dt>group</dt>
            <dd>{kind.group}</dd>
          </>
        )}
        {s.process && (
          <>
            <dt>process</dt>
            <dd>{s.process}</dd>
          </>
        )}
        {s.version && (
          <>
            <dt>version</dt>
            <dd>{s.version}</dd>
          </>
        )}
      </dl>
    </section>
  );
}

const stacks = signal(false);

/** AtWork shows for how long workers have been at their batches, the longest first: a handler that hangs is the first. */
function AtWork({ name }: { name: string }) {
  useEffect(() => {
    const again = () => void refreshWork(stacks.value).catch(() => undefined);
    again();
    const timer = setInterval(again, stacks.value ? 5000 : 2000);
    return () => clearInterval(timer);
  }, [stacks.value]);
  const busy = work.value?.stages?.find((w) => w.name === name)?.busy ?? [];
  return (
    <section aria-label="At work now">
      <h2>At work {at.value === null && !file.value ? 'now' : 'at the end'}</h2>
      <ol class="latest">
        {busy.slice(0, 8).map((b) => (
          <li>
            for <b class="num">{duration(b.ns)}</b>
            {b.suspended && ', suspended'}
            {b.at && (
              <>
                {' '}
                at <code>{b.at}</code>
              </>
            )}
            {b.waits && `, waits for ${b.waits}`}
            {b.process && `, in ${b.process}`}
          </li>
        ))}
      </ol>
      {busy.length === 0 && <p class="quiet">no worker</p>}
      {!file.value && (
        <label title="Reads the stacks of all goroutines, which stops the process for a moment">
          <input type="checkbox" checked={stacks.value} onChange={(e) => (stacks.value = e.currentTarget.checked)} /> show where, every five seconds
        </label>
      )}
    </section>
  );
}

/** usePolled asks about a stage every two seconds while the live pipeline is shown, and whether it does. */
function usePolled(ask: (stage: string) => Promise<void>, name: string, wanted = true): boolean {
  const asks = wanted && answers();
  useEffect(() => {
    if (!asks) return;
    const again = () => void ask(name).catch(() => undefined);
    again();
    const timer = setInterval(again, 2000);
    return () => clearInterval(timer);
  }, [name, asks]);
  return asks;
}

/** Timers shows the open windows, and what the stage does next without a command. */
function Timers({ name }: { name: string }) {
  const asks = usePolled(refreshTimers, name);
  const all = timers.value;
  const w = all?.windows;
  if (!asks || all?.stage !== name || !(w || all.ticks.length)) return null;
  return (
    <section aria-label="Windows and timers">
      <h2>Windows and timers</h2>
      {w && (
        <dl class="facts num">
          <dt>open windows</dt>
          <dd>{count(w.open)}</dd>
          <dt>commands in them</dt>
          <dd>{w.whole ? '' : 'at least '}{count(w.commands)}</dd>
          {w.open > 0 && (
            <>
              <dt>the oldest, for</dt>
              <dd>{duration(w.oldestNs)}</dd>
            </>
          )}
          {w.watermark && (
            <>
              <dt>watermark</dt>
              <dd title={w.watermark}>{date(w.watermark)}</dd>
            </>
          )}
        </dl>
      )}
      <ol class="latest">
        {all.ticks.map((t) => (
          <li>
            {t.inNs > 0 ? 'in ' : ''}
            <b class="num">{t.inNs > 0 ? duration(t.inNs) : 'now'}</b>: {t.what}
            {t.process && `, in ${t.process}`}
          </li>
        ))}
      </ol>
      {all.ticks.length === 0 && <p class="quiet">no timer runs</p>}
    </section>
  );
}

/** Hottest shows the keys of which most commands wait, while the live pipeline is shown. */
function Hottest({ name, s }: { name: string; s: Stage }) {
  const keyed = graph.value?.stages?.find((x) => x.name === name)?.keyed;
  const asks = usePolled(refreshKeys, name, !!(keyed || s.workers.keys || s.queue.fairKeys || s.queue.rateKeys));
  if (!asks) return null;
  const all = keys.value?.stage === name ? keys.value : null;
  return (
    <section aria-label="Hottest keys">
      <h2>Hottest keys</h2>
      <ol class="latest">
        {all?.keys.map((k) => (
          <li key={k.process + k.hash}>
            <code title={info.value?.payloads ? k.hash : 'The key is hidden: this is a hash of it'}>{k.name || '#' + k.hash}</code> <b class="num">{count(k.waiting)}</b> waiting
            {k.atWork && ', at work'}
            {k.parked && ', ❚❚ parked'}
            {k.process && `, in ${k.process}`}
          </li>
        ))}
      </ol>
      {all?.keys.length === 0 && <p class="quiet">no command waits</p>}
      {all?.whole === false && <p class="quiet">of a part of the keys, which is chosen by chance</p>}
    </section>
  );
}

function Latest({ name }: { name: string }) {
  const all = changes.value.filter((c) => c.stage === name).slice(0, 5);
  if (!all.length) return null;
  return (
    <section aria-label="Latest decisions">
      <h2>Latest decisions</h2>
      <ol class="latest">
        {all.map((c) => (
          <li>
            {change(c)}: {c.reason}
          </li>
        ))}
      </ol>
      <p>
        <a href={href('decisions', { stage: name })}>All decisions about {name}</a>
      </p>
    </section>
  );
}

function Actions({ name, s }: { name: string; s: Stage }) {
  const stage = { stage: name };
  if (!['pause', 'resume', 'drain', 'reopen', 'resize', 'rate', 'capacity'].some(enabled)) return null;
  return (
    <div class="buttons" role="group" aria-label={`Actions on ${name}`}>
      {s.paused ? (
        <Action verb="resume" body={stage} label="▶ Resume" done={`${name} resumes`} />
      ) : (
        <Action verb="pause" body={stage} label="❚❚ Pause" done={`${name} is paused`} />
      )}
      {s.draining ? (
        <Action verb="reopen" body={stage} label="Reopen" done={`${name} is open`} />
      ) : (
        <Action verb="drain" body={stage} label="Drain" done={`${name} drains`} danger={`Drain ${name}? It takes no commands until it is reopened.`} />
      )}
      {enabled('resize') && (
        <form key={name} onSubmit={(e) => resize(e, name)}>
          <label>
            fewest <input name="fewest" type="number" min="0" required defaultValue={s.workers.least ?? 0} />
          </label>
          <label>
            most <input name="most" type="number" min="0" required title="0 and 0 are the declared bounds" defaultValue={s.workers.most ?? 1} />
          </label>
          <button type="submit">Resize</button>
        </form>
      )}
      {enabled('capacity') && (
        <form key={name + 'capacity'} onSubmit={(e) => capacity(e, name)}>
          <label>
            slots <input name="slots" type="number" min="0" required title="0 is the declared capacity" defaultValue={s.queue.capacity ?? 1} />
          </label>
          <button type="submit">Set capacity</button>
        </form>
      )}
      {enabled('rate') && (
        <form key={name + 'rate'} onSubmit={(e) => limit(e, name)}>
          <label>
            per second <input name="perSecond" type="number" min="0" step="any" required title="0 gives the rate back to the policy" />
          </label>
          <label>
            burst <input name="burst" type="number" min="1" required defaultValue={1} />
          </label>
          <button type="submit">Set rate</button>
        </form>
      )}
    </div>
  );
}

function capacity(e: SubmitEvent, stage: string): void {
  const slots = Number(fields(e).get('slots'));
  void run({ verb: 'capacity', body: { stage, slots }, done: `${stage} has ${slots} slots` });
}

function fields(e: SubmitEvent): FormData {
  e.preventDefault();
  return new FormData(e.currentTarget as HTMLFormElement);
}

function resize(e: SubmitEvent, stage: string): void {
  const f = fields(e);
  const [fewest, most] = [Number(f.get('fewest')), Number(f.get('most'))];
  void run({ verb: 'resize', body: { stage, fewest, most }, done: `${stage} has ${fewest} to ${most} workers` });
}

function limit(e: SubmitEvent, stage: string): void {
  const f = fields(e);
  const [perSecond, burst] = [Number(f.get('perSecond')), Number(f.get('burst'))];
  void run({ verb: 'rate', body: { stage, perSecond, burst }, done: `${stage} starts ${perSecond} commands a second` });
}

