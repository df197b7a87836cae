import { useEffect } from 'preact/hooks';
import { refreshTree } from '../api';
import { clock, count, duration, none } from '../format';
import { href } from '../route';
import { at, file, snapshot, tree } from '../store';
import type { Tree } from '../types';
import { matches } from '../ui/shell';

export function TreePage() {
  useEffect(() => {
    const again = () => void refreshTree().catch(() => undefined);
    again();
    const timer = setInterval(again, 2000);
    return () => clearInterval(timer);
  }, []);
  return (
    <>
      <div class="title">
        <h1>Tree</h1>
        <span class="quiet">supervisors and what they restart{at.value !== null || file.value ? '; as it was at the end' : ''}</span>
      </div>
      {tree.value ? (
        <ul class="tree">
          <Branch t={tree.value} />
        </ul>
      ) : (
        <p class="empty">No tree yet.</p>
      )}
    </>
  );
}

/** found reports whether a name below t has what the search field says. */
function found(t: Tree): boolean {
  return matches(t.name, t.lastReason) || (t.children ?? []).some(found);
}

function Branch({ t }: { t: Tree }) {
  if (!found(t)) return null;
  const children = t.children ?? [];
  return (
    <li>
      <div class="branch" data-item>
        {snapshot.value!.stages[t.name] ? (
          <a href={href('stage', { name: t.name })}>
            <b>{t.name}</b>
          </a>
        ) : (
          <b>{t.name}</b>
        )}
        <span class="kind">{t.kind === 'supervisor' ? t.kind : t.state || t.kind}</span>
        {t.strategy && <span class="quiet">{t.strategy}</span>}
        {(t.restarts ?? 0) > 0 && <span class="warn">↻ {count(t.restarts)} restarts</span>}
        {t.intensity && t.intensity.max > 0 && <Intensity i={t.intensity} name={t.name} />}
        {t.detail && <span class="quiet">{t.detail}</span>}
        {t.until && <span class="warn">starts again at {clock(t.until)}</span>}
        {t.lastReason && <span class="error">{t.lastReason}</span>}
      </div>
      {children.length > 0 && (
        <ul>
          {children.map((c) => (
            <Branch t={c} />
          ))}
        </ul>
      )}
    </li>
  );
}

function Intensity({ i, name }: { i: { max: number; withinNs: number; used: number }; name: string }) {
  return (
    <span class="intensity">
      <meter min={0} max={i.max} high={i.max * 0.7} value={i.used} aria-label={`Restarts of ${name}`} /> {count(i.used)} of {count(i.max)} restarts in{' '}
      {i.withinNs ? duration(i.withinNs) : none}
    </span>
  );
}
