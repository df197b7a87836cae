package race

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/golda-dev/golda/controller/simulator"
)

// warmUp is how much of the load comes before the measurement.
const warmUp = 30 * time.Second

// blocks is in how many blocks a recording is drawn anew. A block has bursts and
// lulls as they were; a load that changes in the course of a block or more is
// drawn in another order.
const blocks = 12

// model returns the model of a run: of the recording itself, or of a draw.
func (r *Recording) model(m simulator.Model, aim Aim, i int) simulator.Model {
	random := rand.New(rand.NewPCG(aim.Seed, uint64(i)))
	length := r.length()
	warm := min(length, warmUp)
	spans := spans(length, warm, random, i > 0)
	m.Sources = slices.Clone(m.Sources)
	for j := range m.Sources {
		src := &m.Sources[j]
		src.Load, src.Arrivals, src.Timeout = nil, within(r.arrivals(src.To), spans), aim.Within
	}
	m.Stages = slices.Clone(m.Stages)
	for j := range m.Stages {
		times := r.Services[m.Stages[j].Name]
		if len(times) == 0 {
			continue
		}
		if i > 0 {
			times = drawn(times, random)
		}
		r.serve(&m.Stages[j], times)
	}
	m.Seed, m.Length, m.Warmup, m.Every = aim.Seed+uint64(i), length+warm, warm, 0
	return m
}

// serve has the handlers of a stage take the times. Handlers that compute for a
// share of a time wait for the rest.
func (r *Recording) serve(st *simulator.Stage, times []time.Duration) {
	share, known := r.computes[st.Name]
	if !known {
		st.Service = simulator.Trace(times)
		return
	}
	part := func(of float64) []time.Duration {
		all := make([]time.Duration, len(times))
		for i, d := range times {
			all[i] = time.Duration(of * float64(d))
		}
		return all
	}
	st.Service, st.Waits = simulator.Constant(0), nil
	if share > 0 {
		st.Service = simulator.Trace(part(share))
	}
	if share < 1 {
		st.Waits = simulator.Sample(part(1 - share))
	}
}

// span is a part of a recording.
type span struct{ from, length time.Duration }

// spans returns the parts of which a run consists: a warm-up with the beginning
// of the recording, and the recording; or as much in blocks that are drawn.
func spans(length, warm time.Duration, random *rand.Rand, draw bool) (all []span) {
	if !draw {
		return []span{{0, warm}, {0, length}}
	}
	size := max(length/blocks, 1)
	for left := length + warm; left > 0; left -= size {
		from := time.Duration(random.Int64N(int64(length - size + 1)))
		all = append(all, span{from, min(size, left)})
	}
	return all
}

// within returns the arrivals of the spans, one span after the other.
func within(arrivals []time.Duration, spans []span) []time.Duration {
	all := make([]time.Duration, 0, len(arrivals)*2)
	begin := time.Duration(0)
	for _, s := range spans {
		i, _ := slices.BinarySearch(arrivals, s.from)
		for ; i < len(arrivals) && arrivals[i] < s.from+s.length; i++ {
			all = append(all, begin+arrivals[i]-s.from)
		}
		begin += s.length
	}
	return all
}

// drawn draws as many values as there are, in blocks of neighbours.
func drawn(all []time.Duration, random *rand.Rand) []time.Duration {
	size := max(len(all)/blocks, 1)
	out := make([]time.Duration, 0, len(all)+size)
	for len(out) < len(all) {
		from := random.IntN(len(all) - size + 1)
		out = append(out, all[from:from+size]...)
	}
	return out[:len(all)]
}
