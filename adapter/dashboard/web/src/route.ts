import { computed, signal } from '@preact/signals';

// The page and its filters are in the fragment of the address, so that a link
// leads to the same view: #/table?sort=-rate&q=resize.

const hash = signal(location.hash);
addEventListener('hashchange', () => (hash.value = location.hash));

const parsed = computed(() => {
  const [path = '', query = ''] = hash.value.replace(/^#\/?/, '').split('?', 2);
  return { page: path || 'graph', query: new URLSearchParams(query) };
});

export const page = computed(() => parsed.value.page);

export function param(name: string): string {
  return parsed.value.query.get(name) ?? '';
}

/** href is the address of a page; empty parameters are left out. */
export function href(page: string, params: Record<string, string> = {}): string {
  const query = new URLSearchParams();
  for (const [name, v] of Object.entries(params)) if (v) query.set(name, v);
  const text = query.toString();
  return '#/' + page + (text ? '?' + text : '');
}

/** setParams changes parameters of this page, without a step in the history. */
export function setParams(changes: Record<string, string>): void {
  const all = { ...Object.fromEntries(parsed.value.query), ...changes };
  history.replaceState(null, '', href(page.value, all));
  hash.value = location.hash;
}

export function go(to: string): void {
  location.hash = to;
}
