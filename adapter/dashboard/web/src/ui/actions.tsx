import { signal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { act, Denied, signIn, token, who } from '../api';
import { enabled } from '../store';
import { say } from './say';

interface Asked {
  verb: string;
  body: object;
  done: string; // what to say if the server has no words for it
  then?: () => void;
  instead?: () => Promise<void>; // of the verb's own request
}

const asking = signal<Asked | null>(null); // the action that waits for a token

/** run asks the pipeline for an action; the user is asked for the token first, once a tab. */
export async function run(a: Asked): Promise<void> {
  if (!token()) {
    asking.value = a;
    return;
  }
  try {
    if (a.instead) {
      await a.instead();
      say(a.done);
    } else {
      const answer = await act(a.verb, a.body);
      say((answer.text || a.done) + (answer.n ? ` (entry ${answer.n} of the journal)` : ''));
    }
    a.then?.();
  } catch (e) {
    if (e instanceof Denied) asking.value = a;
    say(`${a.verb}: ${(e as Error).message}`, true);
  }
}

export function Token() {
  const a = asking.value;
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (a) dialog.current?.showModal();
  }, [a]);
  if (!a) return null;
  return (
    <dialog ref={dialog} aria-labelledby="token-title" onClose={() => (asking.value = null)}>
      <form
        onSubmit={(e) => {
          e.preventDefault();
          const f = new FormData(e.currentTarget);
          signIn(String(f.get('token')).trim(), String(f.get('who')).trim());
          dialog.current?.close();
          if (token()) void run(a);
        }}
      >
        <h2 id="token-title">Token</h2>
        <p>Actions ask for the token that the program gave to the dashboard. This tab keeps it until it is closed.</p>
        <div class="fields">
          <label>
            Token <input name="token" type="password" autocomplete="off" required />
          </label>
          <label>
            Your name, for the journal <input name="who" autocomplete="off" maxLength={64} defaultValue={who()} />
          </label>
        </div>
        <p class="buttons">
          <button type="submit">Go on</button>
          <button type="button" onClick={() => dialog.current?.close()}>
            Cancel
          </button>
        </p>
      </form>
    </dialog>
  );
}

/** Action is a button that is there only if its action is enabled. */
export function Action({ verb, body, label, done, then, danger }: { verb: string; body: object; label: string; done: string; then?: () => void; danger?: string }) {
  if (!enabled(verb)) return null;
  return (
    <button type="button" class={danger ? 'danger' : ''} onClick={() => (!danger || confirm(danger)) && void run({ verb, body, done, then })}>
      {label}
    </button>
  );
}
