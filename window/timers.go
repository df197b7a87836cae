package window

import (
	"time"

	"github.com/golda-dev/golda/internal/link"
)

// Timers returns the open windows, and when a timer closes the next one. It looks
// at the oldest windows if there are very many. The timers of a [Throttle]
// whose periods have no command are left out: nothing is seen of them.
func (s *collector[K, V, C]) Timers() link.Timers {
	s.mu.Lock()
	defer s.mu.Unlock()
	open := link.Windows{Whole: s.order.Len() <= link.MostWindows}
	var next time.Time
	looked := 0
	for e := s.order.Front(); e != nil && looked < link.MostWindows; e = e.Next() {
		looked++
		w := e.Value.(*window[K, V])
		if w.Count == 0 { // its first command is being added
			continue
		}
		open.Open++
		open.Commands += w.Count
		if open.Oldest.IsZero() || w.Opened.Before(open.Oldest) {
			open.Oldest = w.Opened
		}
		if due := w.due(s.bounds.Time, s.bounds.Every, s.bounds.Idle); next.IsZero() || !due.IsZero() && due.Before(next) {
			next = due
		}
	}
	open.Open += s.order.Len() - looked
	t := link.Timers{Windows: &open}
	if !next.IsZero() {
		t.Ticks = append(t.Ticks, link.Tick{What: "close a window", At: next})
	}
	return t
}
