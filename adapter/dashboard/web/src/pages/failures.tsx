import { useEffect } from 'preact/hooks';
import { count, date, none } from '../format';
import { param, setParams } from '../route';
import { enabled, file, groups, info } from '../store';
import type { Failure } from '../types';
import { letters, refreshFailures } from '../api';
import { Action, run } from '../ui/actions';
import { Elsewhere } from '../ui/elsewhere';
import { say } from '../ui/say';
import { download } from '../ui/timebar';
import { matches } from '../ui/shell';

const stores: [string, string, string][] = [
  ['', 'All', ''],
  ['dead', 'Dead letters', 'commands that ended without an answer'],
  ['failures', 'Failures', 'commands that ended with an error'],
  ['quarantine', 'Quarantine', 'commands that crashed their handlers as often as they may be tried'],
];

export function FailuresPage() {
  const store = param('store');
  const parked = groups.value.some((g) => g.parked);
  useEffect(() => {
    if (!parked || file.value) return;
    // Commands come to a parked key without a further letter, so no event says so.
    const timer = setInterval(() => void refreshFailures(), 2000);
    return () => clearInterval(timer);
  }, [parked, file.value]);
  const all = groups.value.filter((g) => (!store || g.store === store) && matches(g.stage, g.error, g.fingerprint));
  return (
    <>
      <div class="title">
        <h1>Failures</h1>
        <div class="tabs" role="group" aria-label="Store">
          {stores.map(([id, title, what]) => (
            <button type="button" aria-pressed={store === id} title={what || undefined} onClick={() => setParams({ store: id })}>
              {title} <span class="num">{count(groups.value.filter((g) => !id || g.store === id).length)}</span>
            </button>
          ))}
        </div>
        {store && enabled('export') && (
          <button type="button" onClick={() => void run({ verb: 'export', body: {}, done: `Exported ${store}`, instead: () => save(store) })}>
            Export
          </button>
        )}
      </div>
      <Elsewhere what="letters" />
      {all.length === 0 && <p class="empty">✓ {groups.value.length ? 'None of the failures is like that.' : 'Nothing has failed.'}</p>}
      <ul class="cards">
        {all.map((g) => (
          <li key={g.store + g.stage + g.fingerprint + g.reason}>
            <Group g={g} />
          </li>
        ))}
      </ul>
    </>
  );
}

async function save(store: string): Promise<void> {
  download(`golda-${info.value?.pipeline}-${store}.jsonl`, await letters(store));
}

/** Edit retries a command that the user has changed. */
function Edit({ g, then }: { g: Failure; then: () => void }) {
  const sample = g.sample!;
  const submit = (e: SubmitEvent) => {
    e.preventDefault();
    try {
      const command: unknown = JSON.parse(String(new FormData(e.currentTarget as HTMLFormElement).get('command')));
      void run({ verb: 'edit', body: { store: g.store, id: sample.n, command }, done: 'The edited command is retried', then });
    } catch (error) {
      say(`The command is no JSON: ${(error as Error).message}`, true);
    }
  };
  return (
    <details>
      <summary>Edit, then retry</summary>
      <form onSubmit={submit}>
        <textarea name="command" rows={6} aria-label="Command" spellcheck={false} defaultValue={JSON.stringify(sample.command, null, 2)} />
        <p class="buttons">
          <button type="submit">Retry with this command</button>
        </p>
      </form>
    </details>
  );
}

function Group({ g }: { g: Failure }) {
  const again = () => void refreshFailures();
  const same = { store: g.store, stage: g.stage, reason: g.reason, fingerprint: g.fingerprint || undefined };
  return (
    <details class="card">
      <summary data-item>
        <span class="head">
          <span class="store">{g.store}</span> <b>{g.stage}</b>
          <span class="num times" title="how many there have been">
            ×{count(g.count)}
          </span>
          {!!g.parked && (
            <span class="chip note parked" title="Later commands of their keys wait until the letters are retried or dropped">
              ❚❚ {count(g.parked)} {g.parked === 1 ? 'key' : 'keys'} parked, {count(g.waiting ?? 0)} waiting
            </span>
          )}
        </span>
        <span class="error">{g.error || g.reason || none}</span>
        <span class="quiet">
          first {date(g.first)}, last {date(g.last)}
        </span>
      </summary>
      <dl class="facts">
        <dt>Fingerprint</dt>
        <dd>
          <code>{g.fingerprint || none}</code>
        </dd>
        {g.kept !== undefined && (
          <>
            <dt>Kept</dt>
            <dd>
              {count(g.kept)} of {count(g.count)}
            </dd>
          </>
        )}
        {!!g.processes?.length && (
          <>
            <dt>Processes</dt>
            <dd>{g.processes.join(', ')}</dd>
          </>
        )}
        <dt>Reason</dt>
        <dd>{g.reason || g.sample?.reason || none}</dd>
        {g.sample && (
          <>
            <dt>Newest letter</dt>
            <dd>
              number {g.sample.n}, attempt {g.sample.attempt}, {date(g.sample.at)}
              {g.sample.process && `, in ${g.sample.process}`}
              {g.sample.parked && `; ${count(g.sample.waiting ?? 0)} later commands of its key wait for it`}
            </dd>
            <dt>Command</dt>
            <dd>
              {g.sample.type && <code>{g.sample.type}</code>}{' '}
              {g.sample.missing || (g.sample.summary ? <code>{g.sample.summary}</code> : info.value?.payloads ? none : 'hidden: the program does not show commands')}
            </dd>
          </>
        )}
      </dl>
      {g.stack && (
        <pre tabIndex={0} aria-label="Stack">
          {g.stack}
        </pre>
      )}
      {g.sample && g.sample.command != null && enabled('edit') && <Edit g={g} then={again} />}
      {!file.value && (
        <p class="buttons">
          {g.sample && <Action verb="retry" body={{ store: g.store, id: g.sample.n }} label="Retry one" done="One command is retried" then={again} />}
          <Action verb="retryAll" body={same} label="Retry one, then all" done="The commands are retried" then={again} />
          <Action verb="drop" body={same} label="Drop all" done="The letters are dropped" then={again} danger={`Drop all letters of ${g.stage} in ${g.store} with this fingerprint?`} />
        </p>
      )}
    </details>
  );
}
