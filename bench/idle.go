package main

import (
	"fmt"
	"math"
	"runtime"
	"time"
)

const idleStages = 10_000

// idle measures the cost of stages that have nothing to do: W7. It builds a
// line of 10,000 stages; one command passes through it, so that each stage has
// worked; then the line is left alone for a moment. The figure is the growth of
// heap and stacks, and of goroutines, after that.
func idle(impl implementation, o order) (sample, error) {
	n := idleStages
	if o.Moment {
		n = 100
	}
	all := parcels(1)
	var ended tally
	s := shape[*parcel]{
		steps: nothings[*parcel](n, 1), capacity: capacity, deal: byID, codec: parcelCodec(all), end: func(*parcel) { ended.add() },
	}
	before := held()
	l, err := impl.pointers(s)
	if err != nil {
		return sample{}, err
	}
	defer l.stop()
	fresh := held()
	begin := used()
	if err := l.send(all); err != nil {
		return sample{}, err
	}
	result := sample{Commands: 1, Answered: ended.await(1, patience)}
	begin.since(&result, 1, n)
	if result.Answered == 0 {
		return result, fmt.Errorf("the command never came to the end of %d stages", n)
	}
	if !o.Moment {
		time.Sleep(time.Second)
	}
	after := held()
	per := func(bytes uint64) float64 { return max(0, float64(bytes)-float64(before.bytes)) / float64(n) }
	result.FreshBytesPerStage, result.BytesPerStage = per(fresh.bytes), per(after.bytes)
	result.GoroutinesPerStage = float64(after.goroutines-before.goroutines) / float64(n)
	runtime.KeepAlive(s)
	return result, nil
}

// holding is the memory and goroutines of a process.
type holding struct {
	bytes      uint64
	goroutines int
}

// held measures after garbage collection, and several times: pools are emptied
// at the second collection, and a policy, which runs once a second, uses half a
// kilobyte for each stage while it runs.
func held() holding {
	least := holding{math.MaxUint64, math.MaxInt}
	for i := range 4 {
		if i > 1 {
			time.Sleep(50 * time.Millisecond)
		}
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		least.bytes = min(least.bytes, m.HeapAlloc+m.StackInuse)
		least.goroutines = min(least.goroutines, runtime.NumGoroutine())
	}
	return least
}
