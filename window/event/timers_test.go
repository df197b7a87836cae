package event_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/window/event"
)

func TestTheOpenWindowsOfEventTimeAreCounted(t *testing.T) {
	for name, c := range map[string]struct {
		mark event.Watermark[hit]
		tick string
		end  int // the watermark in seconds; -1: there is none
	}{
		"with the watermark": {event.Watermark[hit]{Disorder: 10 * s, Lateness: time.Hour}, "", 110},
		"with the tick that looks for idle sources": {
			event.Watermark[hit]{Disorder: 10 * s, Lateness: time.Hour, Idle: 30 * s}, "look for idle sources", 110,
		},
		"with the tick that looks for idle keys": {
			event.Watermark[hit]{Disorder: 10 * s, Lateness: time.Hour, ByKey: true, Idle: 30 * s}, "look for idle keys", -1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var r report
				of := tumbling(c.mark)
				p := run(t, of, &r)
				begin := time.Now()
				time.Sleep(s)
				submit(t, of, hit{0, "a", 1}, hit{70, "a", 1}, hit{71, "a", 1}) // the first window is passed on, and stays
				time.Sleep(s)
				submit(t, of, hit{120, "a", 1})
				synctest.Wait()
				require.Equal(t, []string{"a[0,60) 1/1"}, r.take())
				for _, stage := range []string{of.Name(), of.Name() + " windows"} {
					got, err := link.Operate(p).Timers(stage)
					require.NoError(t, err)
					require.Equal(t, 2, got.Windows.Open)
					require.Equal(t, 3, got.Windows.Commands)
					require.True(t, got.Windows.Whole)
					require.Equal(t, s, got.Windows.Oldest.Sub(begin))
					if c.end < 0 {
						require.Zero(t, got.Windows.Mark)
					} else {
						require.Equal(t, int64(c.end), got.Windows.Mark.Unix())
					}
					var want []link.Tick
					if c.tick != "" {
						want = []link.Tick{{What: c.tick, At: begin.Add(31 * s)}}
					}
					require.Equal(t, want, got.Ticks)
				}
				require.NoError(t, p.Stop(t.Context()))
				got, err := link.Operate(p).Timers(of.Name())
				require.NoError(t, err)
				require.Zero(t, got.Windows.Open)
				require.Empty(t, got.Ticks)
			})
		})
	}
}
