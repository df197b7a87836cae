package nats

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAnInletThatStandsStillIsWorthAWarningSeldom(t *testing.T) {
	s := standstill{limit: time.Minute}
	begin := time.Now()
	for _, step := range []struct {
		after time.Duration
		full  bool
		ended uint64
		want  time.Duration
	}{
		{0, true, 5, 0},
		{59 * time.Second, true, 5, 0},
		{60 * time.Second, true, 5, time.Minute},
		{119 * time.Second, true, 5, 0},
		{120 * time.Second, true, 5, 2 * time.Minute},
		{200 * time.Second, true, 6, 0}, // one has ended
		{439 * time.Second, true, 6, 0},
		{440 * time.Second, true, 6, 4 * time.Minute},
		{450 * time.Second, false, 6, 0}, // it is not full any more
		{1000 * time.Second, true, 6, 0},
		{1479 * time.Second, true, 6, 0},
		{1480 * time.Second, true, 6, 8 * time.Minute},
	} {
		require.Equal(t, step.want, s.observe(begin.Add(step.after), step.full, step.ended), "after %v", step.after)
	}
}
