package main

import "github.com/alitto/pond/v2"

// Pond is a pool of goroutines: here a pool for each stage, with a queue of
// 1,024 tasks. A task does the work of one stage and submits a task to the next
// pool.
//
// It guarantees: a limited number of tasks waits, then submitters wait; a pool
// with one goroutine keeps the order. A panic is caught and reported to the
// goroutine that waits for the task. No goroutine waits for tasks that other
// tasks have submitted, so a command that panics in the middle of the line
// vanishes.
var pondPools = implementation{
	name: "pond",
	what: "pond, a pool of goroutines for each stage",
	promise: promise{
		bound: "bounded: submitters wait",
		order: oneWorker,
		crash: "the command is lost, silently",
	},
	pointers: pondLine[*parcel],
	blocks:   pondLine[block],
	boxes:    pondLine[*block],
}

func pondLine[C any](s shape[C]) (line[C], error) {
	pools := make([][]pond.Pool, len(s.steps))
	for i, st := range s.steps {
		for range st.width() {
			pools[i] = append(pools[i], pond.NewPool(st.workers, pond.WithQueueSize(s.capacity)))
		}
	}
	var push func(i int, c C) error
	push = func(i int, c C) error {
		return pools[i][s.lane(i, c)].Go(func() {
			s.steps[i].do(c)
			if s.last(i) {
				s.end(c)
				return
			}
			_ = push(i+1, c) // it fails once the pools are stopped, when all commands have ended
		})
	}
	return line[C]{
		submit: func(c C) error { return push(0, c) },
		stop: func() {
			for _, lanes := range pools {
				for _, p := range lanes {
					p.StopAndWait()
				}
			}
		},
	}, nil
}
