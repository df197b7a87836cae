import { main, type Row } from '../derive';
import { percent } from '../format';

/** Bar shows how workers spent their time: as lengths with patterns, and the largest part in words. */
export function Bar({ row, words = true }: { row: Row; words?: boolean }) {
  const [name, most] = main(row);
  const text = `busy ${percent(row.busy)}, blocked ${percent(row.blocked)}, idle ${percent(row.idle)}, starved ${percent(row.starved)}`;
  return (
    <span class="use">
      <span class="bar" role="img" aria-label={`Workers: ${text}`} title={text}>
        <span class="busy" style={{ width: row.busy * 100 + '%' }} />
        <span class="blocked" style={{ width: row.blocked * 100 + '%' }} />
        <span class="idle" style={{ width: row.idle * 100 + '%' }} />
      </span>
      {words && (
        <span class="word">
          {name} {percent(most)}
        </span>
      )}
    </span>
  );
}
