import { Chart } from '../ui/chart';
import { clock, count, short, value } from '../format';
import { href, param, setParams } from '../route';
import { changes, shown, snapshot } from '../store';
import type { Change } from '../types';
import { Elsewhere } from '../ui/elsewhere';
import { matches } from '../ui/shell';
import { workersSeries, queuedSeries, times } from './series';

/** change writes what was changed, or what was kept for a reason. */
export function change(c: Change): string {
  const [from, to] = [value(c.from), value(c.to)];
  return from === to ? `${c.what} stays ${to}` : `${c.what} ${from} → ${to}`;
}

export function DecisionsPage() {
  const stage = param('stage');
  const all = changes.value.filter((c) => (!stage || c.stage === stage) && matches(c.stage, c.what, c.reason, c.who, c.process ?? ''));
  const from = shown.value[0]?.t ?? 0;
  const marks = all.map((c) => Date.parse(c.at)).filter((t) => t >= from);
  return (
    <>
      <div class="title">
        <h1>Decisions</h1>
        <label>
          Stage{' '}
          <select value={stage} onChange={(e) => setParams({ stage: e.currentTarget.value })}>
            <option value="">all</option>
            {snapshot.value!.order.map((name) => (
              <option value={name}>{name}</option>
            ))}
          </select>
        </label>
        <span class="quiet">{count(all.length)} changes</span>
      </div>
      <Chart
        title={`Commands in ${stage ? 'the queue of ' + stage : 'all queues'}`}
        summary={`Commands in the ${stage ? 'queue of ' + stage : 'queues of all stages'} over the time, with ${marks.length} decisions`}
        times={times()}
        lines={[{ label: 'queued', colour: 'busy', values: queuedSeries(stage) }]}
        marks={marks}
        format={short}
        height={110}
      />
      <Chart
        title={`Workers of ${stage || 'all stages'}`}
        summary={`Workers of ${stage || 'all stages'} over the time, with ${marks.length} decisions`}
        times={times()}
        lines={[{ label: 'there', colour: 'blocked', dash: [5, 3], values: workersSeries(stage) }]}
        marks={marks}
        format={short}
        height={110}
      />
      <Elsewhere what="decisions" />
      {all.length === 0 && <p class="empty">No decision yet.</p>}
      {all.length > 0 && (
        <div class="scroll" tabIndex={0} role="region" aria-label="The journal">
          <table class="journal">
            <thead>
              <tr>
                <th scope="col">Time</th>
                <th scope="col">Stage</th>
                <th scope="col">Change</th>
                <th scope="col">Why</th>
                <th scope="col">By</th>
              </tr>
            </thead>
            <tbody>
              {all.slice(0, 300).map((c) => (
                <tr key={c.n} data-item>
                  <td class="num">{clock(c.at)}</td>
                  <th scope="row">{snapshot.value!.stages[c.stage] ? <a href={href('stage', { name: c.stage })}>{c.stage}</a> : c.stage || 'pipeline'}</th>
                  <td class="num">{change(c)}</td>
                  <td class="why">{c.reason}</td>
                  <td class="quiet">
                    {c.who}
                    {c.process && `, in ${c.process}`}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {all.length > 300 && <p class="quiet">The newest 300 are shown.</p>}
    </>
  );
}
