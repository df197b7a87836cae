import * as store from './store';
import type { Change, Failure, Fleet, Graph, History, Info, Keys, Recording, Snapshot, Timers, Tree, Verdicts, Work } from './types';

const base = 'golda/v1';

export async function get<T>(path: string): Promise<T> {
  const answer = await fetch(base + path, { headers: { Accept: 'application/json' } });
  if (!answer.ok) throw new Error(await problem(answer));
  return (await answer.json()) as T;
}

async function problem(answer: Response): Promise<string> {
  try {
    const p = (await answer.json()) as { title?: string; detail?: string };
    return p.detail || p.title || answer.statusText;
  } catch {
    return `${answer.status} ${answer.statusText}`;
  }
}

const tokenKey = 'golda-token';
const whoKey = 'golda-who'; // the name of the operator in the journal

export const token = () => sessionStorage.getItem(tokenKey) ?? '';
export const who = () => sessionStorage.getItem(whoKey) ?? '';

export function signIn(t: string, name: string): void {
  sessionStorage.setItem(tokenKey, t);
  sessionStorage.setItem(whoKey, name);
}

/** Denied is the answer to an action whose token is missing or wrong. */
export class Denied extends Error {}

async function allowed(path: string, init: RequestInit): Promise<Response> {
  const answer = await fetch(base + path, { ...init, headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${token()}` } });
  if (answer.status === 401 || answer.status === 403) {
    sessionStorage.removeItem(tokenKey);
    throw new Denied(await problem(answer));
  }
  if (!answer.ok) throw new Error(await problem(answer));
  return answer;
}

/** Done is what the server says about an action. */
export interface Done {
  n: number; // of the entry in the journal
  count: number; // of letters that were retried or dropped
  text: string; // what was done
}

/** act asks for an action. */
export async function act(verb: string, body: object): Promise<Done> {
  return (await (await allowed(`/actions/${verb}`, { method: 'POST', body: JSON.stringify({ ...body, who: who() || undefined }) })).json()) as Done;
}

/** letters are all letters of a store, as lines of JSON. */
export async function letters(store: string): Promise<string> {
  return (await allowed(`/actions/export?store=${encodeURIComponent(store)}`, {})).text();
}

/** patched applies a merge patch of RFC 7396; what it does not name is shared with the old value. */
export function patched<T>(old: T, patch: unknown): T {
  if (patch === null || typeof patch !== 'object' || Array.isArray(patch)) return patch as T;
  const fresh: Record<string, unknown> = old !== null && typeof old === 'object' && !Array.isArray(old) ? { ...old } : {};
  for (const [key, v] of Object.entries(patch)) {
    if (v === null) delete fresh[key];
    else fresh[key] = patched(fresh[key], v);
  }
  return fresh as T;
}

/** stream calls each with every event of a stream, until it ends or is aborted. */
export async function stream(path: string, signal: AbortSignal, each: (event: string, data: unknown) => void): Promise<void> {
  const answer = await fetch(base + path, { signal });
  if (!answer.ok) throw new Error(await problem(answer));
  const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  let event = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const lines = (text + value).split('\n');
    text = lines.pop()!;
    for (const line of lines) {
      if (line.startsWith('event: ')) event = line.slice(7);
      else if (line.startsWith('data: ')) each(event, JSON.parse(line.slice(6)));
    }
  }
}

let events: EventSource | null = null;
let start: { n: number; snapshot: Snapshot } | null = null; // the numbered base of the deltas
let last: { n: number; snapshot: Snapshot } | null = null;

function receive(n: number, s: Snapshot): void {
  last = { n, snapshot: s };
  store.connection.value = 'live';
  store.push(s);
}

function delta(d: { n: number; base: number; patch: unknown }): void {
  const from = last?.n === d.base ? last : start?.n === d.base ? start : null;
  if (from) receive(d.n, patched(from.snapshot, d.patch));
  else reconnect();
}

function reconnect(): void {
  events?.close();
  setTimeout(listen, 1000);
}

function on<T>(name: string, f: (data: T) => void): void {
  events!.addEventListener(name, (e) => f(JSON.parse((e as MessageEvent<string>).data) as T));
}

function listen(): void {
  if (store.file.value) return;
  events = new EventSource(base + '/events');
  on<{ n: number; snapshot: Snapshot }>('base', (b) => {
    start = b;
    receive(b.n, b.snapshot);
  });
  on('delta', delta);
  on<{ changes: Change[] | null }>('journal', (j) => store.heard(j.changes ?? []));
  on<Verdicts>('verdict', store.judged);
  on<Fleet>('processes', (f) => (store.fleet.value = f));
  on<{ count: number }>('failures', () => void refreshFailures());
  events.addEventListener('end', () => {
    disconnect();
    store.connection.value = 'ended';
  });
  events.onerror = () => {
    store.connection.value = 'lost';
    if (events?.readyState === EventSource.CLOSED) reconnect();
  };
}

let busy = false;

/** refreshFailures reads the groups again, one request at a time. */
export async function refreshFailures(): Promise<void> {
  if (busy || store.file.value) return;
  busy = true;
  try {
    store.failures.value = (await get<{ groups: Failure[] | null }>('/failures')).groups ?? [];
  } catch {
    // The next event asks again.
  } finally {
    busy = false;
  }
}

export async function refreshTree(): Promise<void> {
  if (!store.file.value) store.tree.value = await get<Tree>('/tree');
}

/** refreshWork reads which workers are at a batch. The stacks say where, and stop the process for a moment. */
export async function refreshWork(stacks: boolean): Promise<void> {
  if (!store.file.value) store.work.value = await get<Work>(stacks ? '/workers?stacks=true' : '/workers');
}

/** refreshKeys reads the keys of a stage of which most commands wait. */
export async function refreshKeys(stage: string): Promise<void> {
  if (!store.file.value) store.keys.value = await get<Keys>(`/keys?stage=${encodeURIComponent(stage)}`);
}

/** refreshTimers reads the open windows of a stage, and what it does next. */
export async function refreshTimers(stage: string): Promise<void> {
  if (!store.file.value) store.timers.value = await get<Timers>(`/timers?stage=${encodeURIComponent(stage)}`);
}

/** refreshProcesses reads the processes, which a fleet tells by itself. */
export async function refreshProcesses(): Promise<void> {
  if (!store.file.value) store.fleet.value = await get<Fleet>('/processes');
}

export async function refreshInfo(): Promise<void> {
  store.info.value = await get<Info>('');
}

/** connect begins to show the live pipeline. */
export async function connect(): Promise<void> {
  store.file.value = '';
  store.at.value = null;
  store.ring.value = [];
  store.journal.value = [];
  start = last = null;
  events?.close();
  const quietly = (p: Promise<unknown>) => p.catch(() => undefined);
  await quietly(refreshInfo());
  if (store.info.value?.recorded) {
    show('of ' + store.info.value.process, await get<Recording>('/recording'));
    return;
  }
  listen();
  await Promise.all([
    quietly(get<Graph>('/graph').then((g) => (store.graph.value = g))),
    quietly(get<{ changes: Change[] | null }>('/journal').then((j) => store.heard(j.changes ?? []))),
    quietly(get<History>('/history').then(store.past)),
    refreshFailures(),
    quietly(refreshTree()),
    quietly(refreshProcesses()),
  ]);
}

function disconnect(): void {
  events?.close();
  events = null;
}

/** open shows a recording instead of the live pipeline. */
export async function open(f: File): Promise<void> {
  show(f.name, JSON.parse(await f.text()) as Recording);
}

let shown: Recording | null = null;

function show(name: string, r: Recording): void {
  if (!r?.history?.snapshots?.length) throw new Error('this is no recording of Golda: it has no snapshots');
  disconnect();
  shown = r;
  store.load(name, r);
}

/** recording is what the server has recorded, or the file that the page shows. */
export async function recording(): Promise<Recording> {
  return store.file.value && shown ? shown : get<Recording>('/recording');
}
