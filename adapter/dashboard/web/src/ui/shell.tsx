import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { help, pages } from '../keys';
import { count } from '../format';
import { go, href, page, param, setParams } from '../route';
import { at, connection, file, info, recent, snapshot, stageRows } from '../store';
import { Timebar } from './timebar';

export type Theme = '' | 'light' | 'dark';

export const theme = signal<Theme>((localStorage.getItem('golda-theme') as Theme) ?? '');

function setTheme(t: Theme): void {
  theme.value = t;
  localStorage.setItem('golda-theme', t);
  document.documentElement.dataset.theme = t;
}
setTheme(theme.value);

const dark = () => (theme.value ? theme.value === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches);

export function Shell({ children }: { children: ComponentChildren }) {
  const current = useRef<HTMLElement>(null);
  useEffect(() => {
    const here = current.current?.querySelector<HTMLElement>('[aria-current]');
    current.current?.scrollTo({ left: (here?.offsetLeft ?? 0) - current.current.clientWidth / 2 });
  }, [page.value]);
  return (
    <>
      <a class="skip" href="#main" onClick={skip}>
        Skip to the page
      </a>
      <header class="top">
        <div class="brand">
          <strong>{snapshot.value?.pipeline ?? 'Golda'}</strong>
          <Health />
        </div>
        <nav aria-label="Pages" ref={current}>
          {pages.map((p) => (
            <a href={href(p.name, keep(p.name))} aria-current={page.value === p.name ? 'page' : undefined} aria-keyshortcuts={`g ${p.key}`}>
              {p.title}
            </a>
          ))}
        </nav>
        <div class="tools">
          <input
            id="search"
            type="search"
            aria-label="Search stages"
            aria-keyshortcuts="/"
            placeholder="Search  /"
            autocomplete="off"
            spellcheck={false}
            value={param('q')}
            onInput={(e) => setParams({ q: e.currentTarget.value })}
            onKeyDown={jump}
          />
          <button type="button" class="icon" aria-label={dark() ? 'Use light colours' : 'Use dark colours'} onClick={() => setTheme(dark() ? 'light' : 'dark')}>
            <span aria-hidden="true">{dark() ? '☀' : '☾'}</span>
          </button>
          <button type="button" class="icon" aria-label="Help" aria-keyshortcuts="?" onClick={() => (help.value = true)}>
            <span aria-hidden="true">?</span>
          </button>
        </div>
      </header>
      <main id="main" tabIndex={-1}>
        {children}
      </main>
      <Timebar />
      {help.value && <Help />}
    </>
  );
}

function skip(e: Event): void {
  e.preventDefault(); // the fragment is the page's address
  document.getElementById('main')?.focus();
}

/** keep is what a link to another page keeps of this one's filters. */
function keep(name: string): Record<string, string> {
  return name === 'stage' ? { name: param('name') } : { q: param('q') };
}

/** jump leads from the search field to the first stage found, or back to the page. */
function jump(e: KeyboardEvent): void {
  if (e.key === 'Escape') {
    setParams({ q: '' });
    (e.currentTarget as HTMLElement).blur();
  } else if (e.key === 'Enter' && page.value === 'graph') {
    const found = stageRows.value.find((r) => matches(r.name));
    if (found) go(href('stage', { name: found.name }));
  }
}

/** matches reports whether a text has what the search field says. */
export function matches(...texts: (string | undefined)[]): boolean {
  const q = param('q').toLowerCase();
  return !q || texts.some((t) => t?.toLowerCase().includes(q));
}

function Health() {
  if (!snapshot.value && connection.value === 'connecting') return <span class="chip">… connecting</span>;
  return (
    <>
      {file.value ? (
        <span class="chip note">▤ recording {file.value}</span>
      ) : connection.value === 'lost' ? (
        <span class="chip bad">✕ no connection</span>
      ) : connection.value === 'ended' && at.value === null ? (
        <span class="chip note">■ stopped</span>
      ) : at.value !== null ? (
        <span class="chip note">◷ in the past</span>
      ) : (
        <span class="chip">● live</span>
      )}
      {recent.value > 0 ? (
        <a class="chip bad" href={href('failures')}>
          ▲ {count(recent.value)} failed in a minute
        </a>
      ) : (
        <span class="chip good">✓ no failures</span>
      )}
      {!file.value && info.value?.readOnly && <span class="chip quiet">read-only</span>}
    </>
  );
}

const keys: [string, string][] = [
  ['/', 'search stages'],
  ...pages.map((p): [string, string] => [`g ${p.key}`, p.title]),
  ['j k', 'next and previous in a list'],
  ['← →', 'a second back or forward, in the time slider'],
  ['?', 'this help'],
];

function Help() {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} aria-labelledby="help-title" onClose={() => (help.value = false)}>
      <h2 id="help-title">Keys and words</h2>
      <dl class="keys">
        {keys.map(([k, what]) => (
          <div>
            <dt>
              <kbd>{k}</kbd>
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
      <p>
        <b>Busy</b>: in handlers. <b>Blocked</b>: handled, and waits for a free slot in a next stage. <b>Idle</b>: without work although commands wait, because of keys,
        guards, a rate or a pause. <b>Starved</b>: without work, and the queue is empty.
      </p>
      <p>Rates and percentiles are of the ten seconds before the time shown, unless they say otherwise.</p>
      <p class="buttons">
        <button type="button" onClick={() => dialog.current?.close()}>
          Close
        </button>
      </p>
    </dialog>
  );
}
