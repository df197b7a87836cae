package main

import "github.com/panjf2000/ants/v2"

// Ants, a pool of goroutines that are used again: a pool with a function for each stage,
// which invokes the next pool.
//
// It guarantees: no more goroutines than asked for. It has no queue: who invokes a busy pool
// waits until a goroutine is free, and those who wait are not served in order. A panic is
// caught and logged, without the command, which vanishes.
var antsPools = implementation{
	name: "ants",
	what: "ants, a pool of goroutines for each stage",
	promise: promise{
		bound: "no queue: who submits waits",
		order: "not kept where several submit",
		crash: "the command is lost; a log says that one panicked",
	},
	pointers: antsLine[*parcel],
	blocks:   antsLine[block],
	boxes:    antsLine[*block],
}

// mute is a logger of ants that says nothing: W6 crashes on purpose.
type mute struct{}

// Printf prints nothing.
func (mute) Printf(string, ...any) {}

func antsLine[C any](s shape[C]) (line[C], error) {
	pools := make([][]*ants.PoolWithFuncGeneric[C], len(s.steps))
	for i, st := range s.steps {
		work := func(c C) {
			st.do(c)
			if s.last(i) {
				s.end(c)
				return
			}
			_ = pools[i+1][s.lane(i+1, c)].Invoke(c) // it fails once the pools are released, when all have ended
		}
		for range st.width() {
			pool, err := ants.NewPoolWithFuncGeneric(st.workers, work, ants.WithLogger(mute{}))
			if err != nil {
				return line[C]{}, err
			}
			pools[i] = append(pools[i], pool)
		}
	}
	return line[C]{
		submit: func(c C) error { return pools[0][0].Invoke(c) },
		stop: func() {
			for _, lanes := range pools {
				for _, p := range lanes {
					p.Release()
				}
			}
		},
	}, nil
}
