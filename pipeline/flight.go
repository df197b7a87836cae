package pipeline

import (
	"log/slog"
	"maps"

	recorder "github.com/golda-dev/golda/internal/flight"
	"github.com/golda-dev/golda/pipeline/flight"
)

// Flight has a flight recorder run with the pipeline: when a stage stalls, or
// misses its objective, the last seconds of the execution trace of the process
// are in a file, whose name is in the log. By default there is none.
//
//	pipeline.Flight(flight.Options{Dir: "/var/tmp/shop"})
//
// A process can have one flight recorder at a time. If there is another one,
// Start fails with [flight.ErrTaken].
func Flight(o flight.Options) Part {
	return once("Flight", func(s *settings) {
		o.Within = maps.Clone(o.Within)
		s.flight = &o
	})
}

// newFlight returns the recorder for a pipeline; nil without options.
func newFlight(o *flight.Options, log *slog.Logger, times func() []recorder.Times) *recorder.Recorder {
	if o == nil {
		return nil
	}
	return recorder.New(*o, log, times)
}

// times returns how long the commands of each stage took.
func (p *Pipeline) times() []recorder.Times {
	snapshot := p.Snapshot()
	all := make([]recorder.Times, len(snapshot.Stages))
	for i, st := range snapshot.Stages {
		all[i] = recorder.Times{Stage: st.Name, Wait: st.Latency.Wait, Handler: st.Latency.Service}
	}
	return all
}
