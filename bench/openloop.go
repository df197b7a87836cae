package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"
)

// The schedule of W5.
const (
	requestEvery = 100 * time.Microsecond // 10,000 a second
	requests     = 10_000
	warmRequests = 1_000 // not measured
)

// The limits of a missed schedule: beyond them the figures would be the
// machine's and not the implementation's.
const (
	lateBy    = 10 * time.Millisecond
	lateShare = 0.01
)

// openLoop measures the time from when a request should have been sent to its
// answer: W5. Each request has a goroutine of its own that waits for the
// answer, as in a server, so that a slow line delays no later request. The time
// counts from the schedule: a request that is sent late, because the machine
// was busy, has waited as well.
func openLoop(impl implementation, o order) (sample, error) {
	n, warm := o.commands(requests), o.commands(warmRequests)
	all := parcels(n + warm)
	l, err := impl.pointers(shape[*parcel]{
		steps: nothings[*parcel](3, 1), capacity: capacity, deal: byID, codec: parcelCodec(all),
		end: (*parcel).answer, answers: true,
	})
	if err != nil {
		return sample{}, err
	}
	defer l.stop()
	if _, err := schedule(warm, requestEvery, func(i int) error { return ask(context.Background(), l, all[i]) }); err != nil {
		return sample{}, err
	}
	runtime.GC()
	if l.watch != nil {
		defer l.watch()()
	}
	before := used()
	log, err := schedule(n, requestEvery, func(i int) error { return ask(context.Background(), l, all[warm+i]) })
	if err != nil {
		return sample{}, err
	}
	result := log.sample(before, n)
	if o.Moment {
		return result, nil
	}
	return result, log.missed()
}

// record is the times of the requests of a schedule.
type record struct {
	lateness []time.Duration // from when a request should have been sent until it was
	latency  []time.Duration // from when it should have been sent to its answer
}

// sample returns the figures of n requests through three steps.
func (r record) sample(before usage, n int) sample {
	result := sample{Commands: n, Answered: n}
	before.since(&result, n, 3)
	result.P50, result.P99 = quantile(r.latency, 0.5), quantile(r.latency, 0.99)
	sent := r.sinceSent()
	result.SentP50, result.SentP99 = quantile(sent, 0.5), quantile(sent, 0.99)
	result.NsPerHop = result.P50 / 3
	return result
}

// sinceSent returns the times from when requests were sent. They leave out the
// lateness of the generator, which is most of the latency: a timer that fires
// some 30 µs late, or other load of the machine. They flatter a line that
// delays the generator, so they are reported beside the latency and not instead
// of it.
func (r record) sinceSent() []time.Duration {
	sent := make([]time.Duration, len(r.latency))
	for i := range sent {
		sent[i] = r.latency[i] - r.lateness[i]
	}
	return sent
}

// schedule sends n requests, each at its time, and waits for all answers.
func schedule(n int, every time.Duration, request func(i int) error) (record, error) {
	r := record{make([]time.Duration, n), make([]time.Duration, n)}
	failed := make([]error, n)
	pace, err := newMetronome(every)
	if err != nil {
		return r, err
	}
	defer pace.stop()
	var open sync.WaitGroup
	begin := time.Now()
	for i := range n {
		due := time.Duration(i) * every
		for time.Since(begin) < due {
			if err := pace.wait(); err != nil {
				return r, err
			}
		}
		r.lateness[i] = time.Since(begin) - due
		open.Go(func() {
			failed[i] = request(i)
			r.latency[i] = time.Since(begin) - due
		})
	}
	open.Wait()
	for i, err := range failed {
		if err != nil {
			return r, fmt.Errorf("request %d: %w", i, err)
		}
	}
	return r, nil
}

// missed returns an error if the generator did not keep its schedule.
func (r record) missed() error {
	late := 0
	for _, l := range r.lateness {
		if l > lateBy {
			late++
		}
	}
	if share := float64(late) / float64(len(r.lateness)); share > lateShare {
		return fmt.Errorf("%w: %.1f %% of the requests were sent more than %v late", errMissed, 100*share, lateBy)
	}
	return nil
}

// quantile returns the q-quantile of some times, in nanoseconds.
func quantile(times []time.Duration, q float64) float64 {
	sorted := slices.Sorted(slices.Values(times))
	return float64(sorted[min(len(sorted)-1, int(q*float64(len(sorted))))])
}
