package race_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/controller/race"
	"github.com/golda-dev/golda/controller/simulator"
)

func FuzzRead(f *testing.F) {
	var file bytes.Buffer
	r := race.NewRecorder(&file)
	r.Arrived()
	r.Took("a", time.Second)
	require.NoError(f, r.Flush())
	f.Add(file.Bytes())
	f.Add([]byte("{\"golda recording\":1}\n{\"at\":-1}\n"))
	f.Add([]byte("{\"golda recording\":1}\n{\"stage\":\"a\",\"took\":5}\n{\"at"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var rec race.Recording
		n, err := rec.ReadFrom(bytes.NewReader(b))
		require.LessOrEqual(t, n, int64(len(b)))
		if err != nil {
			require.Zero(t, rec)
			return
		}
		require.Len(t, b, int(n))
		require.IsNonDecreasing(t, append([]time.Duration{0, 0}, rec.Arrivals...))
		for stage, times := range rec.Services {
			require.NotEmpty(t, stage)
			require.NotEmpty(t, times)
		}
	})
}

func TestARecordingIsReadAsItWasWritten(t *testing.T) {
	var file bytes.Buffer
	r := race.NewRecorder(&file)
	for i := range 100 {
		r.Arrived()
		r.Took("a \"stage\"", time.Duration(i))
		r.Took("b", time.Second)
	}
	require.NoError(t, r.Flush())
	file.WriteString(`{"at":1`) // the program was killed
	var rec race.Recording
	_, err := rec.ReadFrom(&file)
	require.NoError(t, err)
	require.Len(t, rec.Arrivals, 100)
	require.Len(t, rec.Services["a \"stage\""], 100)
	require.Equal(t, time.Duration(99), rec.Services["a \"stage\""][99])
	require.Equal(t, time.Second, rec.Services["b"][0])
}

func TestAFileThatIsNoRecordingIsRefused(t *testing.T) {
	const head = "{\"golda recording\":1}\n"
	for text, want := range map[string]string{
		"":                                       "first line",
		"{\"golda recording\":2}\n":              "first line",
		head + "x\n":                             "line 2",
		head + "{}\n":                            "neither",
		head + "{\"took\":1}\n":                  "neither",
		head + "{\"at\":1,\"took\":1}\n":         "neither",
		head + "{\"at\":2}\n{\"at\":1}\n":        "line 3: an arrival at 1ns",
		head + "{\"stage\":\"a\",\"took\":-1}\n": "took -1ns",
		head + strings.Repeat("x", 1<<17) + "\n": "line 2",
	} {
		_, err := new(race.Recording).ReadFrom(strings.NewReader(text))
		require.ErrorContains(t, err, want, text)
	}
}

// recorded is a minute of a load, with handlers of that mean.
func recorded(rate float64, mean time.Duration) *race.Recording {
	random := rand.New(rand.NewPCG(1, 2))
	rec := &race.Recording{Services: map[string][]time.Duration{}}
	for at := time.Duration(0); at < time.Minute; {
		at += time.Duration(random.ExpFloat64() / rate * 1e9)
		rec.Arrivals = append(rec.Arrivals, at)
		rec.Services["work"] = append(rec.Services["work"], time.Duration(random.ExpFloat64()*float64(mean)))
	}
	return rec
}

func model(st simulator.Stage) simulator.Model {
	st.Name = "work"
	st.Service = simulator.Constant(time.Hour) // the recording has better ones
	return simulator.Model{Sources: []simulator.Source{{To: "work", Load: simulator.Steady(1)}}, Stages: []simulator.Stage{st}, Policy: policy.Fixed{}}
}

func TestTheBestPolicyOfAKnownPipelineWins(t *testing.T) {
	for name, c := range map[string]struct {
		rec    *race.Recording
		model  simulator.Model
		others []controller.Policy
		want   string
	}{
		"too few workers of a stage that waits": {
			recorded(200, 20*time.Millisecond), model(simulator.Stage{Workers: 2, Most: 32}),
			[]controller.Policy{policy.CoDel{}, policy.Backlog{}}, "switch from fixed to backlog",
		},
		"an overload of a stage that cannot grow": {
			recorded(400, 20*time.Millisecond), model(simulator.Stage{Workers: 4, Reject: true}),
			[]controller.Policy{policy.Backlog{}, policy.CoDel{}}, "switch from fixed to codel",
		},
		"a load that any policy handles": {
			recorded(20, 5*time.Millisecond), model(simulator.Stage{Workers: 4}),
			[]controller.Policy{policy.Backlog{}, policy.CoDel{}}, "stay with fixed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			aim := race.Aim{Within: 500 * time.Millisecond, Runs: 5}
			r, err := race.Run(t.Context(), c.model, c.rec, c.others, aim)
			require.NoError(t, err)
			require.True(t, strings.HasPrefix(r.Advice(), c.want), r)
			again, err := race.Run(t.Context(), c.model, c.rec, c.others, aim)
			require.NoError(t, err)
			require.Equal(t, r.String(), again.String())
		})
	}
}

func TestARaceThatCannotBeRunIsRefused(t *testing.T) {
	m, rec := model(simulator.Stage{}), recorded(1, time.Millisecond)
	_, err := race.Run(t.Context(), m, nil, nil, race.Aim{})
	require.ErrorContains(t, err, "fewer than two arrivals")
	_, err = race.Run(t.Context(), simulator.Model{}, rec, nil, race.Aim{})
	require.ErrorContains(t, err, "0 sources")
	_, err = race.Run(t.Context(), m, rec, nil, race.Aim{Runs: 3})
	require.ErrorContains(t, err, "3 Runs")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = race.Run(ctx, m, rec, nil, race.Aim{})
	require.ErrorIs(t, err, context.Canceled)
	r, err := race.Run(t.Context(), m, rec, []controller.Policy{policy.Backlog{Target: -1}}, race.Aim{})
	require.NoError(t, err)
	require.Error(t, r.Places[0].Fault)
	require.Equal(t, "no other policy could be simulated", r.Advice())
}
