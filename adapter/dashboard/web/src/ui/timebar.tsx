import { signal } from '@preact/signals';
import { connect, open, recording } from '../api';
import { clock } from '../format';
import { at, file, info, now, ring } from '../store';
import { say } from './say';

const recorded = signal(false); // whether a file is being written

/** Timebar chooses the time that all pages show, and opens and saves recordings. */
export function Timebar() {
  const all = ring.value;
  const first = all[0]?.t ?? 0;
  const last = all.at(-1)?.t ?? 0;
  const shown = now.value?.t ?? last;
  return (
    <footer class="time" aria-label="Time">
      <button type="button" onClick={() => (at.value = at.value === null ? last : null)} disabled={!all.length || (file.value !== '' && at.value === null)}>
        {at.value === null ? '❚❚ Hold' : file.value ? '▶ To the end' : '▶ Live'}
      </button>
      <input
        type="range"
        aria-label="Time shown"
        aria-valuetext={clock(shown)}
        min={first}
        max={last}
        step={1000}
        value={shown}
        disabled={all.length < 2}
        onInput={(e) => move(Number(e.currentTarget.value), last)}
      />
      <output>
        {all.length ? clock(shown) : 'no snapshot yet'}
        {at.value !== null && <span class="ago"> {Math.round((last - shown) / 1000)} s back</span>}
      </output>
      <span class="files">
        <label class="button">
          <input type="file" accept="application/json,.json" onChange={(e) => void choose(e.currentTarget)} />
          Open…
        </label>
        <button type="button" disabled={!all.length || recorded.value} onClick={() => void save()}>
          Save
        </button>
        {file.value && !info.value?.recorded && (
          <button type="button" onClick={() => void connect()}>
            Close file
          </button>
        )}
      </span>
    </footer>
  );
}

function move(t: number, last: number): void {
  at.value = !file.value && t > last - 500 ? null : t;
}

async function choose(input: HTMLInputElement): Promise<void> {
  const f = input.files?.[0];
  input.value = '';
  if (!f) return;
  try {
    await open(f);
    say(`Opened ${f.name}`);
  } catch (e) {
    say(`Cannot open ${f.name}: ${(e as Error).message}`, true);
  }
}

/** save writes what the server recorded, or what this page shows if it is a file. */
async function save(): Promise<void> {
  recorded.value = true;
  try {
    download(`golda-${info.value?.pipeline ?? 'pipeline'}-${new Date().toISOString().slice(0, 19).replace(/[:T]/g, '')}.json`, JSON.stringify(await recording()));
  } catch (e) {
    say(`Cannot save: ${(e as Error).message}`, true);
  } finally {
    recorded.value = false;
  }
}

export function download(name: string, text: string): void {
  const a = document.createElement('a');
  a.href = URL.createObjectURL(new Blob([text], { type: 'application/json' }));
  a.download = name.replace(/[^\w.-]+/g, '-');
  a.click();
  setTimeout(() => URL.revokeObjectURL(a.href), 10_000);
}
