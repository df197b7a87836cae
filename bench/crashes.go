package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

const crashRequests = 20_000

// crashEvery is the interval of commands that panic.
const crashEvery = 100

// crashes counts how many commands end with an answer if one in a hundred
// panics: W6. An answer is a result, or an error that the caller gets. The
// implementations are used as they are: no handler has a recover of its own. If
// the process dies, the parent reports it.
func crashes(impl implementation, o order) (sample, error) {
	all := parcels(o.commands(crashRequests))
	stages := nothings[*parcel](3, 1)
	stages[1].do = func(p *parcel) {
		if p.id%crashEvery == crashEvery/2 {
			panic("a crash on purpose")
		}
	}
	l, err := impl.pointers(shape[*parcel]{
		steps: stages, capacity: capacity, deal: byID, codec: parcelCodec(all), end: (*parcel).answer, answers: true,
	})
	if err != nil {
		return sample{}, err
	}
	before := used()
	answered, last := askAll(l, all, o.quiet())
	result := sample{Commands: len(all), Answered: answered}
	before.since(&result, len(all), len(stages))
	result.NsPerHop = float64(last.Sub(before.at)) / float64(len(all)*len(stages))
	return result, nil // the line is not stopped, because the stop would wait for lost commands
}

// quiet returns how long no answer may come before the wait ends.
func (o order) quiet() time.Duration {
	if o.Moment {
		return 1500 * time.Millisecond
	}
	return 2 * time.Second
}

// askAll calls with all commands, each in a goroutine of its own, and counts
// the answers until no more come. Callers that are never answered wait until
// the process ends.
func askAll(l line[*parcel], all []*parcel, quiet time.Duration) (answered int, last time.Time) {
	ctx, cancel := context.WithCancel(context.Background())
	var count atomic.Int64
	var open sync.WaitGroup
	for _, p := range all {
		open.Go(func() {
			_ = ask(ctx, l, p) // an error is an answer, too
			if ctx.Err() == nil {
				count.Add(1)
			}
		})
	}
	seen := 0
	last = time.Now()
	for seen < len(all) && time.Since(last) < quiet {
		time.Sleep(glance)
		if n := int(count.Load()); n != seen {
			seen, last = n, time.Now()
		}
	}
	seen = int(count.Load())
	cancel()
	return seen, last
}
