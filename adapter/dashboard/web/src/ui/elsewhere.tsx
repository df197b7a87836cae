import { at, file, fleet, info } from '../store';

const some = (answers: boolean) => (fleet.value?.processes ?? []).filter((p) => p.state === 'alive' && p.answers === answers).map((p) => p.name);

/** answers reports whether the live program, or a process of the fleet, can be asked about a stage. */
export function answers(): boolean {
  return !file.value && at.value === null && (!info.value?.fleet || some(true).length > 0);
}

/** Elsewhere says of which processes of a fleet the page does not have something. */
export function Elsewhere({ what }: { what: string }) {
  const names = info.value?.fleet ? some(false) : [];
  if (!names.length) return null;
  return (
    <p class="quiet">
      The {what} of {names.join(', ')} stay in the process: it has no fleet.Options.Dashboard.
    </p>
  );
}
