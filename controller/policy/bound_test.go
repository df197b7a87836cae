package policy_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
)

// Two stages are full for ten minutes; the first is bound by a stage ahead.
func TestNoPolicyGivesAWorkerToAStageThatIsBound(t *testing.T) {
	forEveryPolicy(t, func(t *testing.T, law controller.Policy) {
		f := newRow(law.New(), pool(5, 1, 9), pool(5, 1, 9), pool(5, 1, 9))
		f.usage = 0.1
		had := f.stages[0].Workers // Stealing shares workers out at the start
		for range 600 {
			for i := range f.stages[:2] {
				st := &f.stages[i]
				st.QueueLen, st.Busy, st.InHand = st.QueueCap, st.Workers, st.Workers
				st.Window = controller.Counters{Accepted: 200, OK: 100, Busy: time.Duration(st.Workers) * time.Second}
			}
			f.stages[0].Bound = true
			f.now += 1e9
			f.ask(controller.EventTick)
			require.NoError(t, f.err)
			require.LessOrEqual(t, f.stages[0].Workers, had, "%v", f.journal.Entries())
		}
		orderOnly := law == (policy.Stealing{Preset: policy.Cruz}) // only the first in the order can be its thief
		waitsOnly := law == (policy.Hill{})                        // it changes the workers of blocking stages only
		if !orderOnly && !waitsOnly && claims(law, controller.KnobWorkers) {
			require.Greater(t, f.stages[1].Workers, had, "the other stage gets them: %v", f.journal.Entries())
		}
	})
}
