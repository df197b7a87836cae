package steer_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/histogram"
	"github.com/golda-dev/golda/internal/steer"
)

func TestTimesAreOfTheCommandsSinceTheLastCall(t *testing.T) {
	var times steer.Times
	var wait, work histogram.Histogram
	look := func(name string) *controller.StageStats {
		s := &controller.Snapshot{Stages: []controller.StageStats{{Name: name}}}
		times.Fill(&s.Stages[0], &wait, &work)
		times.Forget(s)
		return &s.Stages[0]
	}
	require.Zero(t, look("a").Wait)
	wait.Record(8*time.Millisecond, 9)
	wait.Record(time.Second, 1)
	work.Record(time.Minute, 4)
	st := look("a")
	require.EqualValues(t, 10, st.Wait.Count)
	require.InEpsilon(t, 8*time.Millisecond, st.Wait.Least, 0.125)
	require.InEpsilon(t, 8*time.Millisecond, st.Wait.P90, 0.125)
	require.InEpsilon(t, 107*time.Millisecond, st.Wait.Mean, 0.1)
	require.EqualValues(t, 4, st.Work.Count)
	require.Zero(t, look("a").Wait, "nothing was recorded since then")
	wait.Record(3*time.Second, 1)
	require.InEpsilon(t, 3*time.Second, look("a").Wait.Least, 0.125)
	require.EqualValues(t, 11, look("b").Wait.Count, "another stage")
	require.EqualValues(t, 11, look("a").Wait.Count, "it was forgotten")
}
