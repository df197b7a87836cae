import { signal } from '@preact/signals';
import { info, enabled, snapshot } from '../store';
import { none } from '../format';
import { run } from '../ui/actions';

const minutes = signal(1);

export function PoliciesPage() {
  const s = snapshot.value!;
  const pools = Object.entries(s.pools ?? {});
  return (
    <>
      <h1>Policies</h1>
      <section class="card">
        <h2>In force</h2>
        <dl class="facts">
          <dt>Pipeline</dt>
          <dd data-v="policy">{s.policy || none}</dd>
          {pools.map(([name, p]) => (
            <>
              <dt>Pool {name}</dt>
              <dd>
                {p.policy || `${s.policy || none}, as the pipeline`}
                {p.plan && <span class="quiet"> visits {p.plan}</span>}
              </dd>
            </>
          ))}
        </dl>
      </section>
      {enabled('policy') && (
        <form class="card" onSubmit={apply}>
          <h2>Apply for a time</h2>
          <p>The policy decides for so long, then the present one does again. The journal names it.</p>
          <p class="buttons">
            <label>
              Policy{' '}
              <select name="policy" required>
                {(info.value?.policies ?? []).map((p) => (
                  <option value={p}>{p}</option>
                ))}
              </select>
            </label>
            <label>
              Minutes{' '}
              <input type="number" min="0.1" max="60" step="any" value={minutes.value} onInput={(e) => (minutes.value = Number(e.currentTarget.value))} />
            </label>
            <button type="submit">Apply</button>
          </p>
        </form>
      )}
    </>
  );
}

function apply(e: SubmitEvent): void {
  e.preventDefault();
  const name = String(new FormData(e.currentTarget as HTMLFormElement).get('policy') ?? '');
  void run({ verb: 'policy', body: { name, forNs: Math.round(minutes.value * 60e9) }, done: `${name} decides for ${minutes.value} min` });
}
