import { computed, signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { stream } from '../api';
import { clock, count, duration } from '../format';
import { href, param, setParams } from '../route';
import { file, info, snapshot } from '../store';
import type { Seen, Watched } from '../types';
import { say } from '../ui/say';
import { matches } from '../ui/shell';

const most = 1000; // events that the page keeps

const seen = signal<Seen[]>([]); // newest first
const counts = signal<Watched | null>(null);
const open = signal<AbortController | null>(null); // the tap that goes on

const shown = computed(() => seen.value.filter((s) => matches(s.stage, s.command, s.error)));

/** query is what the form asks for; the server refuses what makes no sense. */
function query(f: FormData): string {
  const q = new URLSearchParams();
  for (const name of ['stage', 'port', 'result', 'text', 'key', 'limit']) {
    const v = String(f.get(name) ?? '').trim();
    if (v) q.set(name, v);
  }
  const percent = Number(f.get('share'));
  if (percent && percent < 100) q.set('share', String(percent / 100));
  q.set('for', `${Number(f.get('seconds')) || 60}s`);
  if (f.get('follow')) q.set('follow', 'true');
  return '?' + q.toString();
}

async function start(e: SubmitEvent): Promise<void> {
  e.preventDefault();
  const asked = query(new FormData(e.currentTarget as HTMLFormElement));
  stop();
  const mine = new AbortController();
  open.value = mine;
  seen.value = [];
  counts.value = null;
  let fresh: Seen[] = []; // since the page was drawn
  const draw = () => {
    if (fresh.length) seen.value = [...fresh.reverse(), ...seen.value].slice(0, most);
    fresh = [];
  };
  const timer = setInterval(draw, 200);
  try {
    await stream('/tap' + asked, mine.signal, (event, data) => {
      if (open.value !== mine) return;
      if (event === 'seen') fresh.push(data as Seen);
      else counts.value = data as Watched;
    });
  } catch (error) {
    if (!mine.signal.aborted) say(`tap: ${(error as Error).message}`, true);
  } finally {
    clearInterval(timer);
    if (open.value === mine) {
      draw();
      open.value = null;
    }
  }
}

function stop(): void {
  open.value?.abort();
  open.value = null;
}

export function TapPage() {
  useEffect(() => stop, []); // it ends when the viewer leaves
  const s = snapshot.value!;
  if (!info.value?.tap || file.value) {
    return (
      <>
        <h1>Tap</h1>
        <p class="empty">{file.value ? 'A recording has no tap.' : 'This pipeline has no tap: the program gives one to the pipeline and to the dashboard.'}</p>
      </>
    );
  }
  const ports = [...new Set(Object.values(s.stages).flatMap((x) => (x.edges ?? []).map((e) => e.port || e.to)))].sort();
  return (
    <>
      <div class="title">
        <h1>Tap</h1>
        <span class="quiet">commands as handlers end them{info.value.payloads ? '' : '; by their types, since the program does not show commands'}</span>
      </div>
      <form class="card fields-row" onSubmit={(e) => void start(e)}>
        <label>
          Stage{' '}
          <select name="stage" value={param('name')} onChange={(e) => setParams({ name: e.currentTarget.value })}>
            <option value="">all</option>
            {s.order.map((name) => (
              <option value={name}>{name}</option>
            ))}
          </select>
        </label>
        <label>
          To port{' '}
          <select name="port">
            <option value="">any</option>
            {ports.map((name) => (
              <option value={name}>{name}</option>
            ))}
          </select>
        </label>
        <label>
          Result{' '}
          <select name="result">
            <option value="">any</option>
            {['ok', 'forward', 'error', 'crash'].map((r) => (
              <option value={r}>{r}</option>
            ))}
          </select>
        </label>
        <label>
          Contains <input name="text" maxLength={256} autocomplete="off" spellcheck={false} />
        </label>
        {info.value.payloads && (
          <label>
            Key <input name="key" maxLength={256} autocomplete="off" spellcheck={false} title="of commands of keyed stages" />
          </label>
        )}
        <label>
          Share <input name="share" type="number" min="0.001" max="100" step="any" defaultValue={100} /> %
        </label>
        <label>
          At most <input name="limit" type="number" min="1" max="10000" required defaultValue={200} />
        </label>
        <label>
          for <input name="seconds" type="number" min="1" max="600" required defaultValue={60} /> s
        </label>
        <label title="the first command that is chosen, and all that results from it, through all stages">
          <input name="follow" type="checkbox" /> follow one command
        </label>
        <span class="buttons">
          <button type="submit">{open.value ? 'Start anew' : 'Start'}</button>
          <button type="button" disabled={!open.value} onClick={stop}>
            Stop
          </button>
        </span>
      </form>
      <p class="counts" role="status">
        <Counts />
      </p>
      {shown.value.length > 0 && <Events />}
    </>
  );
}

function Counts() {
  const c = counts.value;
  if (!c) return <span class="quiet">{open.value ? '● watching' : 'No tap is open.'}</span>;
  return (
    <>
      {open.value ? '● watching' : '■ ended'}: <b class="num" data-v="shown">{count(c.shown)}</b> shown of <b class="num">{count(c.matched)}</b> chosen and{' '}
      <b class="num">{count(c.asked)}</b> asked
      {c.dropped > 0 && <span class="bad">; ▲ {count(c.dropped)} missed: they were too many</span>}
      {c.ended && <span class="quiet">; {c.ended}</span>}
    </>
  );
}

function result(s: Seen): string {
  if (s.result === 'forward') return '→ ' + s.next;
  if (s.result === 'crash') return '▲ crash';
  return s.result === 'error' ? '✕ ' + s.error : '✓ ' + s.result;
}

function Events() {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Commands, the newest first">
      <table class="journal seen">
        <thead>
          <tr>
            <th scope="col">Time</th>
            <th scope="col">Stage</th>
            <th scope="col">Command</th>
            <th scope="col">Result</th>
            <th scope="col">Took</th>
            <th scope="col">Try</th>
          </tr>
        </thead>
        <tbody>
          {shown.value.slice(0, 300).map((s) => (
            <tr data-item class={s.result === 'error' || s.result === 'crash' ? 'failing' : ''}>
              <td class="num">{clock(s.at)}</td>
              <th scope="row">
                <a href={href('stage', { name: s.stage })}>{s.stage}</a>
              </th>
              <td class="why">
                <code>{s.command}</code>
              </td>
              <td class={s.result === 'error' || s.result === 'crash' ? 'why error' : 'why'}>{result(s)}</td>
              <td class="num">
                {duration(s.tookNs)}
                {s.batch > 1 && <span class="quiet"> of {count(s.batch)}</span>}
              </td>
              <td class="num">{s.attempt}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
