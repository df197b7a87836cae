package main

import (
	"context"
	"runtime"
	"sync"
)

// Plain calls: the submitter calls the steps one after another. There is
// nothing between them, so this is the cost of the work itself, and nothing can
// be faster on one goroutine.
//
// It guarantees: nothing waits, order is kept, and the caller gets a panic.
var direct = implementation{
	name: "direct",
	what: "the submitter calls all steps itself",
	promise: promise{
		bound: nothingWaits,
		order: "kept",
		crash: processDies,
	},
	pointers: directLine[*parcel],
	blocks:   directLine[block],
	boxes:    directLine[*block],
	service:  directService,
	not: map[string]string{
		"W4": "would sleep for one command at a time",
		"W7": noStages,
	},
}

// directAll is the same on as many goroutines as there are processors, which
// divide the commands beforehand. It is the ideal for W3 and W10.
var directAll = implementation{
	name: "direct-all",
	what: "the same, on one goroutine for each processor",
	promise: promise{
		bound: nothingWaits,
		order: "not kept",
		crash: processDies,
	},
	pointers: directAllLine[*parcel],
	blocks:   directAllLine[block],
	boxes:    directAllLine[*block],
	only:     []string{"W1", "W2", "W3", "W8", "W9p", "W9v", "W10", "W12"},
}

func directLine[C any](s shape[C]) (line[C], error) {
	run := directRun(s)
	return line[C]{
		submit: func(c C) error {
			run(c)
			return nil
		},
		call: func(_ context.Context, c C) error {
			run(c)
			return nil
		},
		stop: func() {},
	}, nil
}

// directRun returns a function that does all steps for one command.
func directRun[C any](s shape[C]) func(C) {
	return func(c C) {
		for i := range s.steps {
			s.steps[i].do(c)
		}
		s.end(c)
	}
}

func directAllLine[C any](s shape[C]) (line[C], error) {
	run := directRun(s)
	spread := func(n int, next func(i int) C) {
		var wg sync.WaitGroup
		share := runtime.GOMAXPROCS(0)
		for k := range share {
			wg.Go(func() {
				for i := k * n / share; i < (k+1)*n/share; i++ {
					run(next(i))
				}
			})
		}
		wg.Wait()
	}
	return line[C]{spread: spread, stop: func() {}}, nil
}
