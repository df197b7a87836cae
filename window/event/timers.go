package event

import "github.com/golda-dev/golda/internal/link"

// Timers returns which windows are open, and when the keeper looks next for
// sources or keys that are idle. It looks at some of the windows if there are
// very many. A window that was passed on, and stays for late
// commands, is not open.
func (k *keeper[K, A]) Timers() link.Timers {
	k.mu.Lock()
	defer k.mu.Unlock()
	open := link.Windows{Whole: len(k.queue) <= link.MostWindows}
	looked := k.queue[:min(len(k.queue), link.MostWindows)]
	open.Open = len(k.queue) - len(looked)
	for _, w := range looked {
		if w.over {
			continue
		}
		open.Open++
		open.Commands += w.count
		if open.Oldest.IsZero() || w.opened.Before(open.Oldest) {
			open.Oldest = w.opened
		}
	}
	if !k.byKey && k.clock.mark != never {
		open.Mark = timeOf(k.clock.mark)
	}
	t := link.Timers{Windows: &open}
	if k.timer != nil {
		what := "look for idle sources"
		if k.byKey {
			what = "look for idle keys"
		}
		t.Ticks = append(t.Ticks, link.Tick{What: what, At: k.ticks})
	}
	return t
}

// Timers returns the timers of the stage behind, in which the windows are.
func (s *adder[K, C, A]) Timers() link.Timers { return s.keeper.Timers() }
