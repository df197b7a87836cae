package main

import "github.com/sourcegraph/conc/stream"

// Conc's streams: here a stream for each stage, with as many goroutines as the
// stage has workers. A task does the work; its callback, which is called in the
// order of the tasks, submits a task to the next stream.
//
// It guarantees: order, with any number of workers, and a limited number of
// goroutines. It has no queue: submitters to a busy stream wait. A panic is
// kept and raised again in the goroutine that waits for the end of the stream;
// the command itself vanishes.
var concStreams = implementation{
	name: "conc",
	what: "conc, a stream for each stage",
	promise: promise{
		bound: "no queue: submitters wait",
		order: "kept with any number of workers",
		crash: "the command is lost; a panic comes back at the very end",
	},
	pointers: concLine[*parcel],
	blocks:   concLine[block],
	boxes:    concLine[*block],
}

func concLine[C any](s shape[C]) (line[C], error) {
	streams := make([][]*stream.Stream, len(s.steps))
	for i, st := range s.steps {
		for range st.width() {
			streams[i] = append(streams[i], stream.New().WithMaxGoroutines(st.workers))
		}
	}
	var push func(i int, c C)
	push = func(i int, c C) {
		streams[i][s.lane(i, c)].Go(func() stream.Callback {
			s.steps[i].do(c)
			return func() {
				if s.last(i) {
					s.end(c)
					return
				}
				push(i+1, c)
			}
		})
	}
	return line[C]{
		submit: func(c C) error {
			push(0, c)
			return nil
		},
		stop: func() { concStop(streams) },
	}, nil
}

// concStop waits for the streams, each after its predecessors.
func concStop(streams [][]*stream.Stream) {
	for _, lanes := range streams {
		for _, st := range lanes {
			st.Wait()
		}
	}
}
