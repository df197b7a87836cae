package control

import (
	"strings"
	"time"

	"github.com/golda-dev/golda/internal/engine"
	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/internal/stall"
)

const (
	// mostWaits bounds how many waits a line about a stall names.
	mostWaits = 16
	// longestStep limits how much of the time between two checks counts: if it
	// was longer, the whole process was stopped, or the machine.
	longestStep = 2 * time.Second
)

// checkStalls logs the begin and the end of each stall.
func (a *loopActor) checkStalls(r *Reading) {
	l := a.loop
	now := l.Host.Now()
	passed := min(time.Duration(now-l.checked), longestStep)
	l.checked = now
	stages := make([]stall.Stage, len(r.Stages))
	for i, c := range r.Stages {
		stages[i] = stallStage(c, r.of(c))
	}
	begun, over := l.stalls.Observe(passed, stages, l.look)
	for _, s := range begun {
		l.Log.Warn("stalled: commands wait and nothing moves", stallAttrs(s)...)
		if l.Stalled != nil {
			l.Stalled(s.Stages)
		}
	}
	for _, s := range over {
		l.Log.Info("a stall is over", "stages", strings.Join(s.Stages, ", "), "for", s.For.Round(time.Second))
	}
}

// stallStage returns a stage as the watch for stalls sees it.
func stallStage(c *engine.Core, of *inbox.Accounts) stall.Stage {
	q, n := &of.Queue, &of.Counts
	s := stall.Stage{
		Name:  c.Name(),
		Moved: n.OK + n.Forwarded + n.Errors + n.Emitted + n.Crashes + n.Retries,
		Works: q.Queued+q.InHand+q.Carried > 0 && !of.Knobs.Paused && !of.Draining && of.Open,
		// A caller that waits for a slot is one of a full queue.
		Waiting: q.Queued + q.Carried, Due: of.Due, Limited: c.Spec().Limited(),
	}
	if of.Pool != nil {
		s.Pool = of.Pool.Name()
	}
	return s
}

// look returns the handlers with their stacks, and notes how long nearly all
// commands took so far.
func (l *Loop) look(stages []stall.Stage) []engine.Stuck {
	r := l.Pipeline.Read(true)
	longest := map[string]time.Duration{}
	for _, c := range r.Stages {
		longest[c.Name()] = r.of(c).Work.Quantile(0.99)
	}
	for i := range stages {
		stages[i].Longest = longest[stages[i].Name]
	}
	return l.Pipeline.Handlers()
}

func stallAttrs(s stall.Stall) []any {
	waits := s.Waits
	if more := len(waits) - mostWaits; more > 0 {
		waits = append(waits[:mostWaits:mostWaits], "and more")
	}
	attrs := []any{"stages", strings.Join(s.Stages, ", "), "for", s.For.Round(time.Second), "waits", strings.Join(waits, "; ")}
	if s.Circle != nil {
		attrs = append(attrs, "circle", strings.Join(s.Circle, " → "))
	}
	return attrs
}
