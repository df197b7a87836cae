package jobs_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/adapter/nats/jobs"
)

var noon = time.Date(2026, 3, 28, 12, 0, 0, 0, time.UTC)

func TestAScheduleThatCannotWorkIsRefused(t *testing.T) {
	for want, s := range map[string]jobs.Schedule{
		`Schedule.Name "" must be of 1 to 64`:          {Every: time.Hour},
		`Schedule.Name "a.b" must be of 1 to 64`:       {Name: "a.b", Every: time.Hour},
		"needs a Cron or an Every":                     {Name: "a"},
		"needs a Cron or an Every, and not both":       {Name: "a", Cron: "@daily", Every: time.Hour},
		"Schedule.Every is 1ms, and must be at least":  {Name: "a", Every: time.Millisecond},
		`Schedule.Cron "x": expected exactly 5 fields`: {Name: "a", Cron: "x"},
		"no time in the next five years is one of it":  {Name: "a", Cron: "0 0 30 2 *"},
		"Schedule.Missed is Missed(7), and must be":    {Name: "a", Cron: "@daily", Missed: 7},
	} {
		require.ErrorContains(t, s.Check(), want)
	}
	require.NoError(t, jobs.Schedule{Name: "a", Cron: "CRON_TZ=Europe/Berlin 0 6 * * *", Missed: jobs.Skip}.Check())
}

func TestTheTimesThatWereMissedAreMergedCaughtUpOrSkipped(t *testing.T) {
	at := func(minutes float64) time.Time { return noon.Add(time.Duration(minutes * float64(time.Minute))) }
	for _, row := range []struct {
		missed jobs.Missed
		now    time.Time
		due    []time.Time
		next   time.Time
	}{
		{jobs.Merge, at(9.9), nil, at(10)},
		{jobs.Merge, at(10), []time.Time{at(10)}, at(20)},
		{jobs.Merge, at(45), []time.Time{at(40)}, at(50)},
		{jobs.CatchUp, at(45), []time.Time{at(10), at(20), at(30), at(40)}, at(50)},
		{jobs.Skip, at(45), nil, at(50)},
		{jobs.Skip, at(40.9), []time.Time{at(40)}, at(50)},
		{jobs.Skip, at(10), []time.Time{at(10)}, at(20)},
	} {
		for _, s := range []jobs.Schedule{{Cron: "*/10 * * * *"}, {Every: 10 * time.Minute}} {
			t.Run(fmt.Sprint(row.missed, row.now, s), func(t *testing.T) {
				s.Missed = row.missed
				due, next := s.Due(row.now, s.First(noon), noon)
				require.Equal(t, row.due, due)
				require.Equal(t, row.next, next)
			})
		}
	}
}

func TestATimeZoneMovesWithItsClocks(t *testing.T) {
	s := jobs.Schedule{Cron: "CRON_TZ=Europe/Berlin 0 6 * * *"}
	first := s.First(noon)
	require.Equal(t, time.Date(2026, 3, 29, 4, 0, 0, 0, time.UTC), first.UTC(), "summer time has begun in the night")
	require.Equal(t, time.Date(2026, 3, 29, 6, 0, 0, 0, time.UTC), jobs.Schedule{Cron: "0 6 * * *"}.First(noon), "without a zone it is UTC")
}

// all is the simple model: each time of a schedule, one after the other.
func all(s jobs.Schedule, until time.Time) (times []time.Time) {
	s.Missed = jobs.CatchUp
	for next := s.First(noon); !next.After(until); {
		_, after := s.Due(next, next, noon)
		times = append(times, next)
		next = after
	}
	return times
}

func TestWheneverAScheduleIsLookedAtEachTimeIsHandledAsItSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := jobs.Schedule{Missed: rapid.SampledFrom([]jobs.Missed{jobs.Merge, jobs.CatchUp, jobs.Skip}).Draw(t, "missed")}
		if rapid.Bool().Draw(t, "cron") {
			s.Cron = rapid.SampledFrom([]string{"* * * * *", "*/7 * * * *", "13 3 * * *", "@hourly", "0 9 1 * MON"}).Draw(t, "text")
		} else {
			s.Every = time.Duration(rapid.IntRange(100, 10_000).Draw(t, "seconds")) * time.Second
		}
		var got []time.Time
		now, next := noon, s.First(noon)
		for range rapid.IntRange(1, 12).Draw(t, "looks") {
			now = now.Add(time.Duration(rapid.IntRange(0, 20_000).Draw(t, "gap")) * time.Second)
			for {
				due, then := s.Due(now, next, noon)
				got, next = append(got, due...), then
				if next.After(now) {
					break
				}
			}
		}
		want := all(s, now)
		if s.Missed == jobs.CatchUp {
			require.Equal(t, want, got)
		}
		times := map[time.Time]bool{}
		for _, at := range want {
			times[at] = true
		}
		for _, at := range got {
			require.True(t, times[at], "each is a time of the schedule")
		}
		for k := 1; k < len(got); k++ {
			require.True(t, got[k].After(got[k-1]), "no time comes twice")
		}
		if s.Missed == jobs.Merge && len(want) > 0 {
			require.Equal(t, want[len(want)-1], got[len(got)-1], "the last one is not left out")
		}
		require.True(t, next.After(now))
	})
}
