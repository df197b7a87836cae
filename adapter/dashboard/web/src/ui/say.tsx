import { signal } from '@preact/signals';

const message = signal<{ text: string; bad: boolean } | null>(null);
let hide = 0;

/** say shows a message about what the user has asked for; screen readers speak it. */
export function say(text: string, bad = false): void {
  message.value = { text, bad };
  clearTimeout(hide);
  hide = window.setTimeout(() => (message.value = null), bad ? 20_000 : 6_000);
}

export function Message() {
  const m = message.value;
  return (
    <div class="message" role="status">
      {m && (
        <p class={m.bad ? 'bad' : ''}>
          {m.bad ? '✕ ' : '✓ '}
          {m.text}
          <button type="button" class="icon" aria-label="Close the message" onClick={() => (message.value = null)}>
            ×
          </button>
        </p>
      )}
    </div>
  );
}
