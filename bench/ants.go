package main

import "github.com/panjf2000/ants/v2"

// Ants is a pool of reusable goroutines: here a pool with a function for each
// stage, which invokes the next pool.
//
// It guarantees: a limited number of goroutines. It has no queue: callers of a
// busy pool wait until a goroutine is free, and are not served in order. A
// panic is caught and logged, without the command, which vanishes.
var antsPools = implementation{
	name: "ants",
	what: "ants, a pool of goroutines for each stage",
	promise: promise{
		bound: "no queue: submitters wait",
		order: "not kept where several submit",
		crash: "the command is lost; the panic is logged",
	},
	pointers: antsLine[*parcel],
	blocks:   antsLine[block],
	boxes:    antsLine[*block],
}

// mute is a logger of ants that logs nothing: W6 crashes on purpose.
type mute struct{}

// Printf does nothing.
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
			_ = pools[i+1][s.lane(i+1, c)].Invoke(c) // it fails once the pools are released, when all commands have ended
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
