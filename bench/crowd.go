package main

import (
	"fmt"
	"runtime"
	"time"
)

// submitters is how many goroutines submit in W14.
const submitters = 64

// crowd measures one stage of four workers to which many goroutines submit:
// W14.
func crowd(impl implementation, o order) (sample, error) {
	var ended tally
	all := parcels(o.commands(64_000))
	l, err := impl.pointers(shape[*parcel]{
		steps: nothings[*parcel](1, 4), capacity: capacity, deal: byID, codec: parcelCodec(all), end: func(*parcel) { ended.add() },
	})
	if err != nil {
		return sample{}, err
	}
	defer l.stop()
	send := func() error {
		errs := make(chan error, submitters)
		each := len(all) / submitters
		for i := range submitters {
			go func() {
				for _, p := range all[i*each : (i+1)*each] {
					if err := l.submit(p); err != nil {
						errs <- err
						return
					}
				}
				errs <- nil
			}()
		}
		var first error
		for range submitters {
			if err := <-errs; first == nil {
				first = err
			}
		}
		return first
	}
	n := len(all) / submitters * submitters
	if err := send(); err != nil {
		return sample{}, err
	}
	ended.await(n, patience)
	runtime.GC()
	before, sent := used(), 0
	for sent == 0 || time.Since(before.at) < o.time() {
		if err := send(); err != nil {
			return sample{}, err
		}
		sent += n
	}
	counted := ended.await(n+sent, patience) - n
	result := sample{Commands: sent, Answered: counted}
	before.since(&result, sent, 1)
	if counted != sent {
		return result, fmt.Errorf("%d of %d commands never ended", sent-counted, sent)
	}
	return result, nil
}
