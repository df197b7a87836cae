package main

import "github.com/sourcegraph/conc/stream"

// Conc's streams: a stream for each stage, with as many goroutines as it has workers. A task does
// the work; its callback, which is called in the order of the tasks, hands a task to the next
// stream.
//
// It guarantees: order, however many workers there are, and no more goroutines than asked for. It
// has no queue: who submits to a busy stream waits. A panic is kept and thrown again in whoever waits
// for the end of the stream; the command itself vanishes.
var concStreams = implementation{
	name: "conc",
	what: "conc, a stream for each stage",
	promise: promise{
		bound: "no queue: who submits waits",
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
	var hand func(i int, c C)
	hand = func(i int, c C) {
		streams[i][s.lane(i, c)].Go(func() stream.Callback {
			s.steps[i].do(c)
			return func() {
				if s.last(i) {
					s.end(c)
					return
				}
				hand(i+1, c)
			}
		})
	}
	return line[C]{
		submit: func(c C) error {
			hand(0, c)
			return nil
		},
		stop: func() { concStop(streams) },
	}, nil
}

// concStop waits for the streams, each after those before it.
func concStop(streams [][]*stream.Stream) {
	for _, lanes := range streams {
		for _, st := range lanes {
			st.Wait()
		}
	}
}
