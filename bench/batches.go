package main

import (
	"sync"
	"sync/atomic"
)

// Channels that carry batches of 64 commands, as a Go programmer writes them
// when channels turn out to be expensive. The submitter fills a batch before it
// sends it; stages pass batches on, and divide them only where there are lanes.
//
// It guarantees: at most 1,024 commands wait before a stage; one worker keeps
// the order. A command waits until its batch is full, and then for all others
// of its batch. A panic in any handler ends the process, with all waiting
// commands.
var channelBatch = implementation{
	name: "chanbatch",
	what: "channels that carry slices of 64",
	promise: promise{
		bound: "bounded, in batches: senders wait",
		order: oneWorker,
		crash: processDies,
	},
	pointers: batchLine[*parcel],
	blocks:   batchLine[block],
	boxes:    batchLine[*block],
	not: map[string]string{
		"W5":  wholeBatches,
		"W6":  wholeBatches,
		"W11": wholeBatches,
	},
}

const batchSize = 64

// wholeBatches is why this implementation is not measured with requests.
const wholeBatches = "a request would wait for its batch to fill"

// batch is the message on the channels; batches are reused.
type batch[C any] struct{ commands []C }

// batches is a running line.
type batches[C any] struct {
	shape[C]

	ins  [][]chan *batch[C] // of each step; none after the last
	free sync.Pool
	open *batch[C] // the submitter's
}

func batchLine[C any](s shape[C]) (line[C], error) {
	b := &batches[C]{shape: s, ins: make([][]chan *batch[C], len(s.steps)+1)}
	b.free.New = func() any { return &batch[C]{make([]C, 0, batchSize)} }
	for i, st := range s.steps {
		for range st.width() {
			b.ins[i] = append(b.ins[i], make(chan *batch[C], max(1, s.capacity/batchSize)))
		}
	}
	b.open = b.empty()
	ended := b.start()
	return line[C]{
		submit: b.submit,
		flush:  b.flush,
		stop: func() {
			close(b.ins[0][0])
			ended.Wait()
		},
	}, nil
}

func (b *batches[C]) empty() *batch[C] { return b.free.Get().(*batch[C]) }

func (b *batches[C]) submit(c C) error {
	b.open.commands = append(b.open.commands, c)
	if len(b.open.commands) == batchSize {
		b.flush()
	}
	return nil
}

func (b *batches[C]) flush() {
	if len(b.open.commands) > 0 {
		b.ins[0][0] <- b.open
		b.open = b.empty()
	}
}

// start starts all workers; the last one of a step to end closes the next
// step's channels.
func (b *batches[C]) start() *sync.WaitGroup {
	all := new(sync.WaitGroup)
	for i, st := range b.steps {
		left := new(atomic.Int64) // workers of this step
		left.Store(int64(st.width() * st.workers))
		for _, in := range b.ins[i] {
			for range st.workers {
				all.Go(func() {
					b.work(i, in)
					if left.Add(-1) == 0 {
						closeAll(b.ins[i+1])
					}
				})
			}
		}
	}
	return all
}

func (b *batches[C]) work(i int, in <-chan *batch[C]) {
	do := b.steps[i].do
	for full := range in {
		for _, c := range full.commands {
			do(c)
		}
		switch outs := b.ins[i+1]; len(outs) {
		case 0:
			for _, c := range full.commands {
				b.end(c)
			}
			b.recycle(full)
		case 1:
			outs[0] <- full
		default:
			b.divide(i+1, full, outs)
		}
	}
}

// divide distributes a batch to the lanes of the next step.
func (b *batches[C]) divide(next int, full *batch[C], outs []chan *batch[C]) {
	parts := make([]*batch[C], len(outs))
	for _, c := range full.commands {
		lane := b.lane(next, c)
		if parts[lane] == nil {
			parts[lane] = b.empty()
		}
		parts[lane].commands = append(parts[lane].commands, c)
	}
	for lane, part := range parts {
		if part != nil {
			outs[lane] <- part
		}
	}
	b.recycle(full)
}

func (b *batches[C]) recycle(full *batch[C]) {
	clear(full.commands)
	full.commands = full.commands[:0]
	b.free.Put(full)
}
