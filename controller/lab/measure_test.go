package lab

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/stage"
)

// The first second is a burst. Of its requests one is answered in time, one late, one is refused, one dropped, and one fails.
func TestABurstIsJudgedByWhatCallersGetInTime(t *testing.T) {
	const ms = time.Millisecond
	answers := []answer{
		{kind: answered, latent: 100 * ms},
		{kind: answered, latent: 900 * ms},
		{kind: kindOf(stage.ErrFull), latent: ms},
		{kind: kindOf(stage.ErrExpired), latent: 40 * ms},
		{kind: kindOf(errors.New("broken")), latent: 5 * ms},
		{kind: answered, latent: 100 * ms}, // after the burst
	}
	e := &Experiment{Deadline: 500 * ms, Length: 4 * time.Second}
	tr := &trial{experiment: e, generator: &generator{answers: answers}, bursts: []span{{0, time.Second}}, watch: &watch{samples: []sample{{}}}}
	for i := range answers {
		at := time.Duration(i) * 100 * ms
		if i == 5 {
			at = 2 * time.Second
		}
		tr.generator.requests = append(tr.generator.requests, Request{N: i, At: at})
	}
	r := tr.result(0)
	require.Equal(t, []int{6, 3, 2, 2, 1, 1}, []int{r.Sent, r.Answered, r.Good, r.Refused, r.Dropped, r.Failed})
	require.InDelta(t, 1, r.figures[burstGoodput], 1e-9, "one in a second")
	require.InDelta(t, 200.0/3, r.figures[inTime], 1e-9, "two of three answers")
	require.InDelta(t, 100.0/6, r.figures[droppedShare], 1e-9)
	require.InDelta(t, 40, r.figures[inVain], 1e-9)
	tr.bursts = nil
	require.True(t, math.IsNaN(tr.result(0).figures[burstGoodput]), "there is no burst")
}
