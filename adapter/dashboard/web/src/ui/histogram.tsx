import { duration, count, percent, none } from '../format';
import type { Durations } from '../types';

/** Histogram shows durations in doublings, as bars with their parts in words. */
export function Histogram({ title, d, before }: { title: string; d: Durations; before?: Durations }) {
  const bars = doublings(d);
  const old = new Map(before ? doublings(before) : []);
  const all = d.count || 1; // not zero, to divide by
  const most = Math.max(...bars.map(([, n]) => n), 1);
  const oldAll = before?.count || 1;
  return (
    <section class="histogram" aria-label={title}>
      <h2>{title}</h2>
      <p class="numbers">
        {count(d.count)} samples, half within <b>{d.count ? duration(d.p50Ns) : none}</b>, 99 % within <b>{d.count ? duration(d.p99Ns) : none}</b>
      </p>
      {before && before.count > 0 && (
        <p class="numbers">
          some minutes ago: half within <b>{duration(before.p50Ns)}</b>, 99 % within <b>{duration(before.p99Ns)}</b>
        </p>
      )}
      {bars.length === 0 && <p class="empty">No samples.</p>}
      {bars.length > 0 && (
        <table>
          <thead class="hidden">
            <tr>
              <th>Up to</th>
              <th>Part</th>
            </tr>
          </thead>
          <tbody>
            {bars.map(([upTo, n]) => (
              <tr>
                <th scope="row">{duration(upTo)}</th>
                <td>
                  <span class="column" style={{ width: (n / most) * 70 + '%' }} aria-hidden="true" />
                  {part(n / all)}
                  {old.has(upTo) && <span class="quiet"> was {part(old.get(upTo)! / oldAll)}</span>}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}

const part = (x: number) => (x > 0 && x < 0.01 ? '< 1 %' : percent(x));

/** doublings joins the eight buckets of each doubling. */
export function doublings(d: Durations): [number, number][] {
  const all = new Map<number, number>();
  for (const [upTo, n] of d.buckets ?? []) {
    const bound = 2 ** Math.ceil(Math.log2(Math.max(upTo, 1)) - 1e-9);
    all.set(bound, (all.get(bound) ?? 0) + n);
  }
  const bounds = [...all.keys()];
  for (let b = Math.min(...bounds); b < Math.max(...bounds); b *= 2) all.set(b, all.get(b) ?? 0);
  const sorted = [...all].sort((a, b) => a[0] - b[0]);
  // The short ones that are fewer than one in 200 are one bar.
  const few = d.count / 200;
  while (sorted.length > 1 && sorted[0]![1] + sorted[1]![1] < few) sorted[1]![1] += sorted.shift()![1];
  return sorted;
}
