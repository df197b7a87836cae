import { useEffect } from 'preact/hooks';
import { refreshProcesses } from '../api';
import { clock, count, date, duration, none, rate } from '../format';
import { href } from '../route';
import { at, file, fleet, info } from '../store';
import type { Inlet, Part, Process } from '../types';
import { Action } from '../ui/actions';
import { matches } from '../ui/shell';

// A sign for each state: colour is never alone.
const signs: { [state: string]: [string, string] } = { alive: ['●', 'good'], silent: ['◌', 'note'], lost: ['✕', 'bad'], left: ['■', ''] };

export function ProcessesPage() {
  const live = !file.value && !info.value?.fleet;
  useEffect(() => {
    if (!live) return;
    const again = () => void refreshProcesses().catch(() => undefined);
    again();
    const timer = setInterval(again, 2000);
    return () => clearInterval(timer);
  }, [live]);
  const f = fleet.value;
  const all = (f?.processes ?? []).filter((p) => matches(p.name, p.host, p.state, ...(p.stages ?? []).map((s) => s.stage)));
  const inlets = (f?.inlets ?? []).filter((i) => matches(i.name, i.stage));
  const states = Object.keys(signs).map((state) => [state, (f?.processes ?? []).filter((p) => p.state === state).length] as const);
  return (
    <>
      <div class="title">
        <h1>Processes</h1>
        <span class="states">
          {states
            .filter(([, n]) => n > 0)
            .map(([state, n]) => (
              <span class={`chip ${signs[state]![1]}`} data-count={state}>
                {signs[state]![0]} {count(n)} {state}
              </span>
            ))}
        </span>
        <span class="quiet">{at.value !== null || file.value ? 'as they were at the end' : f && `at ${clock(f.at)}`}</span>
      </div>
      {f?.error && (
        <p class="card error" role="alert">
          {f.error}
        </p>
      )}
      {!f && <p class="empty">No processes are known yet.</p>}
      {inlets.length > 0 && <Inlets all={inlets} />}
      <ul class="cards">
        {all.map((p) => (
          <li key={p.name + p.started}>
            <One p={p} />
          </li>
        ))}
      </ul>
    </>
  );
}

function Inlets({ all }: { all: Inlet[] }) {
  return (
    <section aria-label="Inlets">
      <h2>Inlets</h2>
      <div class="scroll" tabIndex={0} role="region" aria-label="The inlets">
        <table class="journal inlets">
          <thead>
            <tr>
              <th scope="col">Inlet</th>
              <th scope="col">Feeds</th>
              <th scope="col">Lag</th>
              <th scope="col">In flight</th>
              <th scope="col">Oldest</th>
              <th scope="col">Done</th>
              <th scope="col">Dead</th>
              <th scope="col">Processes</th>
              <th scope="col">Workers</th>
              <th scope="col">Limit</th>
              <th scope="col">Law</th>
            </tr>
          </thead>
          <tbody>
            {all.map((i) => (
              <tr data-inlet={i.name} data-item>
                <th scope="row">{i.name}</th>
                <td>{i.stage ? <a href={href('stage', { name: i.stage })}>{i.stage}</a> : none}</td>
                <td class="num" data-v="pending">
                  {count(i.pending)}
                </td>
                <td class="num">{count(i.inFlight)}</td>
                <td class="num">{i.oldestNs ? duration(i.oldestNs) : none}</td>
                <td class="num">
                  {count(i.done)} <span class="quiet">{rate(i.rate)}</span>
                </td>
                <td class={i.buried ? 'num bad' : 'num'}>{count(i.buried)}</td>
                <td class="num">
                  {count(i.processes)} <span class="quiet">of {count(i.wantedProcesses)} wanted</span>
                </td>
                <td class="num">
                  {count(i.workers)} <span class="quiet">of {count(i.wantedWorkers)} wanted</span>
                </td>
                <td>{i.bottleneck || none}</td>
                <td class="why">
                  {i.holds ? '✓ ' : '… '}
                  {i.law}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function One({ p }: { p: Process }) {
  const [sign, colour] = signs[p.state] ?? ['?', ''];
  const gone = p.state === 'lost' || p.state === 'left';
  return (
    <article class={p.state === 'lost' ? 'card lost' : 'card'} aria-label={`Process ${p.name}`} data-process={p.name}>
      <div class="head">
        <b>{p.name}</b> <span class={`chip ${colour}`} data-v="state">
          {sign} {p.state}
        </span>
        <span class="quiet">
          {p.host && `${p.host}, `}
          {p.pid ? `process ${p.pid}, ` : ''}since {date(p.started)}
          {p.state !== 'alive' && `; heard of last ${date(p.heard)}`}
        </span>
        {!gone && (
          <Action verb="drainProcess" body={{ process: p.name }} label="Drain" done={`${p.name} drains`} danger={`Drain ${p.name}? It takes no further work.`} />
        )}
      </div>
      {p.error && <p class="error">{p.error}</p>}
      {(p.stages ?? []).length > 0 && (
        <div class="scroll" tabIndex={0} role="region" aria-label={`Stages of ${p.name}`}>
          <table class="journal">
            <thead>
              <tr>
                <th scope="col">Stage</th>
                <th scope="col">Workers</th>
                <th scope="col">Busy</th>
                <th scope="col">Queue</th>
                <th scope="col">Done</th>
                <th scope="col">Errors</th>
                <th scope="col">Crashes</th>
              </tr>
            </thead>
            <tbody>
              {(p.stages ?? []).map((s) => (
                <Stage s={s} gone={gone} />
              ))}
            </tbody>
          </table>
        </div>
      )}
      {gone && <p class="quiet">The numbers are the last ones that it sent.</p>}
    </article>
  );
}

function Stage({ s, gone }: { s: Part; gone: boolean }) {
  return (
    <tr data-item class={gone ? 'quiet' : ''} data-part={s.stage}>
      <th scope="row">
        <a href={href('stage', { name: s.stage })}>{s.stage}</a>
      </th>
      <td class="num">
        {count(s.workers)} of {count(s.most)}
      </td>
      <td class="num">{count(s.busy)}</td>
      <td class="num">
        {count(s.queue)} of {count(s.capacity)}
      </td>
      <td class="num" data-v="done">
        {count(s.done)}
      </td>
      <td class={s.errors ? 'num bad' : 'num'}>{count(s.errors)}</td>
      <td class={s.crashes ? 'num bad' : 'num'}>{count(s.crashes)}</td>
    </tr>
  );
}
