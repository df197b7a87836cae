package main

import "github.com/alitto/pond/v2"

// Pond, a pool of goroutines: a pool for each stage, with a queue of 1,024 tasks. A task does the
// work of one stage and hands a task to the next pool.
//
// It guarantees: at most so many tasks wait and then who submits waits; tasks of a pool of one are done in
// order. A panic is caught and told to whoever waits for the task; nobody waits for those that other
// tasks have submitted, so a command that panics in the middle vanishes.
var pondPools = implementation{
	name: "pond",
	what: "pond, a pool of goroutines for each stage",
	promise: promise{
		bound: "bounded: who submits waits",
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
	var hand func(i int, c C) error
	hand = func(i int, c C) error {
		return pools[i][s.lane(i, c)].Go(func() {
			s.steps[i].do(c)
			if s.last(i) {
				s.end(c)
				return
			}
			_ = hand(i+1, c) // it fails once the pools are stopped, when all have ended
		})
	}
	return line[C]{
		submit: func(c C) error { return hand(0, c) },
		stop: func() {
			for _, lanes := range pools {
				for _, p := range lanes {
					p.StopAndWait()
				}
			}
		},
	}, nil
}
