package inbox

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/coordination/guard"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/line"
	"github.com/golda-dev/golda/internal/rate"
	"github.com/golda-dev/golda/stage/queue"
)

// The package comment says which code of users runs under the lock of an inbox, and which does not.
func TestUserCodeUnderTheLock(t *testing.T) {
	var in *Inbox
	var locked []bool
	look := func() {
		free := in.mu.TryLock()
		if free {
			in.mu.Unlock()
		}
		locked = append(locked, !free)
	}
	key := func(any) uint64 { look(); return 1 }
	limit := rate.Limit{N: 1000, Per: time.Second, Burst: 1000}
	priority := queue.PriorityOf(func(int) int { look(); return 1 })
	for name, kind := range map[string]struct {
		cfg   Config
		under bool
		then  func()
	}{
		"the key of a command":                       {cfg: Config{Key: key}},
		"the key of a rate":                          {cfg: Config{RateBy: limit, RateKey: key}},
		"the priority of a command":                  {cfg: Config{Discipline: priority}},
		"the method of a command":                    {cfg: Config{Guards: &line.Guards{Method: func(any) string { look(); return "m" }}}},
		"the priorities when the discipline changes": {under: true, then: func() { in.Settings().Order(priority) }},
		"a guard": {under: true, cfg: Config{Guards: &line.Guards{
			Method: func(any) string { return "m" },
			State:  []line.StateGuard{{Method: "m", Guard: func(func(string) guard.Counters) bool { look(); return true }}},
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			locked = nil
			kind.cfg.Name, kind.cfg.Capacity, kind.cfg.Batch = "s", 4, 4
			in = New(kind.cfg)
			(&Pipeline{Base: time.Now(), Quiet: make(chan struct{}, 1), Ended: func(Ending) {}}).Attach(in)
			in.Phases().Open()
			defer func() { in.Phases().Halt()(); in.Phases().StopTimers() }()
			m := &Member{Wake: func() {}}
			in.Workers().Join(m, false)
			require.NoError(t, in.Submit(t.Context(), &command.Envelope{Load: 1}))
			require.Equal(t, 1, in.Senders().HandOver(nil, []command.Envelope{{Load: 2}}, 0, true, false))
			if kind.then != nil {
				kind.then()
			}
			in.Turn(m, &Tally{}, true)
			require.NotEmpty(t, locked)
			for _, is := range locked {
				require.Equal(t, kind.under, is)
			}
		})
	}
}
