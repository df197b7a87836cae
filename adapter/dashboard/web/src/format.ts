// Numbers as text. A value that does not exist is a dash, not a zero.

export const none = '–';

const grouped = new Intl.NumberFormat('en-US');

/** count writes all digits: 1,234,567. */
export function count(n: number | undefined): string {
  return n === undefined || Number.isNaN(n) ? none : grouped.format(n);
}

/** short writes three significant digits: 1.23k. */
export function short(n: number): string {
  if (!Number.isFinite(n)) return none;
  const a = Math.abs(n);
  for (const [unit, name] of [[1e9, 'G'], [1e6, 'M'], [1e3, 'k']] as const) {
    if (a >= unit * 0.9995) return digits(n / unit) + name;
  }
  return a >= 100 || Number.isInteger(n) ? String(Math.round(n)) : digits(n);
}

function digits(n: number): string {
  const a = Math.abs(n);
  return n.toFixed(a >= 100 ? 0 : a >= 10 ? 1 : 2).replace(/\.0+$/, '').replace(/(\.\d)0$/, '$1');
}

export function rate(perSecond: number | undefined): string {
  return perSecond === undefined ? none : short(perSecond) + '/s';
}

export function percent(part: number | undefined): string {
  return part === undefined || Number.isNaN(part) ? none : Math.round(part * 100) + ' %';
}

/** duration writes nanoseconds with a unit: 1.5 ms. */
export function duration(ns: number | undefined): string {
  if (ns === undefined || Number.isNaN(ns)) return none;
  if (ns === 0) return '0 s';
  for (const [unit, name] of [[3600e9, 'h'], [60e9, 'min'], [1e9, 's'], [1e6, 'ms'], [1e3, 'µs']] as const) {
    if (ns >= unit * 0.9995) return digits(ns / unit) + ' ' + name;
  }
  return Math.round(ns) + ' ns';
}

export function clock(t: number | string): string {
  const d = new Date(t);
  return Number.isNaN(d.getTime()) ? none : d.toLocaleTimeString('en-GB');
}

export function date(t: number | string): string {
  const d = new Date(t);
  return Number.isNaN(d.getTime()) ? none : d.toLocaleDateString('en-CA') + ' ' + d.toLocaleTimeString('en-GB');
}

/** value writes a setting of the journal, whose type depends on the knob. */
export function value(v: unknown): string {
  if (v === null || v === undefined || v === '') return none;
  return typeof v === 'object' ? JSON.stringify(v) : String(v);
}

/** label writes a field's name as words: deadLettered as "dead lettered". */
export function label(name: string): string {
  return name.replace(/Ns$/, '').replace(/([A-Z])/g, ' $1').toLowerCase();
}
