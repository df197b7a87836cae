package window_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/window"
)

// step is one step of a walk: after a pause a command comes, or the caller of an earlier one leaves.
type step struct {
	pause  time.Duration
	cmd    word
	leaves int // which caller, counted from 1; 0 if a command comes
}

func drawSteps(t *rapid.T) (steps []step) {
	n := rapid.IntRange(1, 60).Draw(t, "steps")
	came := 0
	for i := range n {
		s := step{pause: time.Duration(rapid.IntRange(0, 4).Draw(t, "seconds"))*time.Second + 1} // no two things at the same time
		if came > 0 && rapid.IntRange(0, 5).Draw(t, "leaves") == 0 {
			s.leaves = rapid.IntRange(1, came).Draw(t, "which")
		} else {
			came++
			key := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "key")
			s.cmd = word{key, fmt.Sprintf("%s%d%s", key, i, strings.Repeat("x", rapid.IntRange(0, 3).Draw(t, "size")))}
		}
		steps = append(steps, s)
	}
	return steps
}

// model is the simplest collector: it looks at all windows in each step.
type model struct {
	b    window.Bounds[word]
	now  time.Duration
	open []*modelWindow // the oldest first
	got  []string
}

type modelWindow struct {
	since, last time.Duration
	cmds        []word
}

func (m *model) close(w *modelWindow, at time.Duration, why window.Cause) {
	m.open = slices.DeleteFunc(m.open, func(o *modelWindow) bool { return o == w })
	var text strings.Builder
	fmt.Fprint(&text, at, " ", why)
	for _, c := range w.cmds {
		text.WriteString(" " + c.text)
	}
	m.got = append(m.got, text.String())
}

func (m *model) due(w *modelWindow) time.Duration {
	due := time.Duration(1 << 62)
	if m.b.Time > 0 {
		due = min(due, w.since+m.b.Time)
	}
	if m.b.Idle > 0 {
		due = min(due, w.last+m.b.Idle)
	}
	return due
}

// advance closes what becomes due until a time.
func (m *model) advance(to time.Duration) {
	for {
		var next *modelWindow
		for _, w := range m.open {
			if m.due(w) <= to && (next == nil || m.due(w) < m.due(next)) {
				next = w
			}
		}
		if next == nil {
			m.now = to
			return
		}
		m.close(next, m.due(next), window.Due)
	}
}

func sizeOf(cmds []word) (n int) {
	for _, c := range cmds {
		n += len(c.text)
	}
	return n
}

func (m *model) find(key string) *modelWindow {
	for _, w := range m.open {
		if w.cmds[0].key == key {
			return w
		}
	}
	return nil
}

func (m *model) add(c word) {
	w := m.find(c.key)
	if w != nil && m.b.Bytes > 0 && sizeOf(w.cmds)+len(c.text) > m.b.Bytes {
		m.close(w, m.now, window.Full)
		w = nil
	}
	if w == nil {
		w = &modelWindow{since: m.now}
		m.open = append(m.open, w)
	}
	w.last = m.now
	w.cmds = append(w.cmds, c)
	if m.b.Count > 0 && len(w.cmds) >= m.b.Count || m.b.Bytes > 0 && sizeOf(w.cmds) >= m.b.Bytes {
		m.close(w, m.now, window.Full)
	}
	held := 0
	for _, w := range m.open {
		held += len(w.cmds)
	}
	for ; held > m.b.Held; held -= len(w.cmds) {
		w = m.open[0]
		m.close(w, m.now, window.Early)
	}
}

func (m *model) leave(c word) {
	w := m.find(c.key)
	if w == nil || !slices.Contains(w.cmds, c) {
		return
	}
	if w.cmds = slices.DeleteFunc(w.cmds, func(o word) bool { return o == c }); len(w.cmds) == 0 {
		m.open = slices.DeleteFunc(m.open, func(o *modelWindow) bool { return o == w })
	}
}

func (m *model) run(steps []step) []string {
	var came []word
	for _, s := range steps {
		m.advance(m.now + s.pause)
		if s.leaves > 0 {
			m.leave(came[s.leaves-1])
			continue
		}
		came = append(came, s.cmd)
		m.add(s.cmd)
	}
	for len(m.open) > 0 {
		m.close(m.open[0], m.now, window.Early)
	}
	return m.got
}

// Each command is in exactly one window or has left, bounds are kept to the nanosecond, and commands and windows are in order.
func TestWindowsAreThoseOfASimpleModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		oneOf := func(name string, of ...int) int { return rapid.SampledFrom(of).Draw(rt, name) }
		b := window.Bounds[word]{
			Count: oneOf("count", 0, 1, 2, 5), Bytes: oneOf("bytes", 0, 4, 12), Held: oneOf("held", 3, 10, 100),
			Time: time.Duration(oneOf("time", 0, 3, 10)) * time.Second, Idle: time.Duration(oneOf("idle", 0, 2, 5)) * time.Second,
		}
		b.Count = min(b.Count, b.Held)
		if b.Bytes > 0 {
			b.Size = func(w word) int { return len(w.text) }
		}
		if b.Count == 0 && b.Bytes == 0 && b.Time == 0 && b.Idle == 0 {
			b.Count = 3
		}
		steps := drawSteps(rt)
		want := (&model{b: b}).run(steps)
		var got []string
		synctest.Test(t, func(t *testing.T) {
			r := start(t, by(b), textOf)
			var leave []context.CancelFunc
			var tickets []*stage.Ticket
			for _, s := range steps {
				time.Sleep(s.pause)
				if s.leaves > 0 {
					leave[s.leaves-1]()
					synctest.Wait()
					continue
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				leave = append(leave, cancel)
				ticket, err := r.stage.Ask(ctx, s.cmd)
				require.NoError(t, err)
				tickets = append(tickets, ticket)
				synctest.Wait()
			}
			got = append(r.take(), r.stop()...)
			for _, ticket := range tickets {
				require.True(t, hasEnded(ticket))
			}
		})
		require.Equal(rt, want, got)
	})
}
