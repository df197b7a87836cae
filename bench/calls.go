package main

import (
	"context"
	"runtime"
	"time"
)

// calls measures a request and its reply, one after another from one goroutine,
// through one stage that does nothing: W11.
func calls(impl implementation, o order) (sample, error) {
	all := parcels(o.commands(20_000))
	l, err := impl.pointers(shape[*parcel]{
		steps: nothings[*parcel](1, 1), capacity: capacity, deal: byID, codec: parcelCodec(all), end: (*parcel).answer, answers: true,
	})
	if err != nil {
		return sample{}, err
	}
	defer l.stop()
	ctx := context.Background()
	call := func(some []*parcel) error {
		for _, p := range some {
			if err := ask(ctx, l, p); err != nil {
				return err
			}
		}
		return nil
	}
	if err := call(all[:max(1, len(all)/10)]); err != nil {
		return sample{}, err
	}
	runtime.GC()
	before, done := used(), 0
	for done == 0 || time.Since(before.at) < o.time() {
		if err := call(all); err != nil {
			return sample{}, err
		}
		done += len(all)
	}
	result := sample{Commands: done, Answered: done}
	before.since(&result, done, 1)
	return result, nil
}
