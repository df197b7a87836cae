package main

import (
	"sync"
	"sync/atomic"
)

// Goroutines and channels by hand: a channel before each stage; the workers
// range over it and send to the next. Most Go programmers would write this
// first.
//
// It guarantees: at most the channel's buffer waits, then senders wait; one
// worker keeps the order. A panic in any handler ends the process, with all
// waiting commands.
var channel = implementation{
	name: "chan",
	what: "goroutines and buffered channels by hand",
	promise: promise{
		bound: "bounded: senders wait",
		order: oneWorker,
		crash: processDies,
	},
	pointers: channelLine[*parcel],
	blocks:   channelLine[block],
	boxes:    channelLine[*block],
	logs:     channelLogs,
}

func channelLine[C any](s shape[C]) (line[C], error) {
	ins := make([][]chan C, len(s.steps)+1) // the channels of each step; none after the last
	for i, st := range s.steps {
		for range st.width() {
			ins[i] = append(ins[i], make(chan C, s.capacity))
		}
	}
	var all sync.WaitGroup
	for i, st := range s.steps {
		left := new(atomic.Int64) // workers of this step; the last one to end closes the next step's channels
		left.Store(int64(st.width() * st.workers))
		for _, in := range ins[i] {
			for range st.workers {
				all.Go(func() {
					channelWorker(s, i, in, ins[i+1])
					if left.Add(-1) == 0 {
						closeAll(ins[i+1])
					}
				})
			}
		}
	}
	entry := ins[0][0]
	return line[C]{
		submit: func(c C) error {
			entry <- c
			return nil
		},
		stop: func() {
			close(entry)
			all.Wait()
		},
	}, nil
}

func channelWorker[C any](s shape[C], i int, in <-chan C, outs []chan C) {
	do, end := s.steps[i].do, s.end
	for c := range in {
		do(c)
		switch len(outs) {
		case 0:
			end(c)
		case 1:
			outs[0] <- c
		default:
			outs[s.lane(i+1, c)] <- c
		}
	}
}

func closeAll[T any](outs []chan T) {
	for _, out := range outs {
		close(out)
	}
}
