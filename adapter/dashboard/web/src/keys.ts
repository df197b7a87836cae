import { signal } from '@preact/signals';
import { go, href, page } from './route';

// The keys: a letter after g leads to a page, j and k move in lists.

export interface Page {
  name: string;
  title: string;
  key: string;
}

export const pages: Page[] = [
  { name: 'graph', title: 'Graph', key: 'g' },
  { name: 'table', title: 'Table', key: 't' },
  { name: 'failures', title: 'Failures', key: 'f' },
  { name: 'stage', title: 'Stage', key: 's' },
  { name: 'decisions', title: 'Decisions', key: 'd' },
  { name: 'processes', title: 'Processes', key: 'o' },
  { name: 'tree', title: 'Tree', key: 'r' },
  { name: 'tap', title: 'Tap', key: 'a' },
  { name: 'policies', title: 'Policies', key: 'p' },
];

export const help = signal(false);

let afterG = 0; // when g was pressed

export function onKey(e: KeyboardEvent): void {
  if (e.ctrlKey || e.metaKey || e.altKey || e.target instanceof HTMLInputElement || e.target instanceof HTMLSelectElement || e.target instanceof HTMLTextAreaElement) return;
  const p = e.timeStamp - afterG < 1500 ? pages.find((p) => p.key === e.key) : undefined;
  afterG = 0;
  if (p) {
    if (p.name !== page.value) go(href(p.name));
  } else if (e.key === 'g') {
    afterG = e.timeStamp;
  } else if (e.key === '/') {
    document.querySelector<HTMLInputElement>('#search')?.focus();
  } else if (e.key === '?') {
    help.value = !help.value;
  } else if (e.key === 'j' || e.key === 'k') {
    step(e.key === 'j' ? 1 : -1);
  } else {
    return;
  }
  e.preventDefault();
}

/** step moves the focus to the next item of the page's list. */
function step(by: number): void {
  const all = [...document.querySelectorAll<HTMLElement>('[data-item]')];
  const here = all.findIndex((item) => item.contains(document.activeElement));
  const next = all[here < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(Math.max(here + by, 0), all.length - 1)];
  const focus = next?.matches('a, button, summary') ? next : next?.querySelector<HTMLElement>('a, button, summary');
  focus?.focus();
  next?.scrollIntoView({ block: 'nearest' });
}
