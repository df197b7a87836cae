package main

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"time"
)

// flowOf measures how fast a line passes n commands that exist already, or n
// again and again until enough time has passed: W1 to W4, W8 to W10, W12.
func flowOf(make steps, n int) func(implementation, order) (sample, error) {
	return func(impl implementation, o order) (sample, error) {
		all := parcels(o.commands(n))
		s := shape[*parcel]{steps: make(o), capacity: capacity, deal: byID, codec: parcelCodec(all)}
		return flow(impl.pointers, s, all, o.time())
	}
}

func byID(p *parcel) int { return p.id }

func parcels(n int) []*parcel {
	made := make([]parcel, n)
	all := make([]*parcel, n)
	for i := range all {
		made[i].id = i
		all[i] = &made[i]
	}
	return all
}

// parcelCodec sends the number of a parcel, because implementations that carry
// bytes cannot carry a pointer.
func parcelCodec(all []*parcel) codec[*parcel] {
	return codec[*parcel]{
		encode: func(p *parcel) []byte { return binary.LittleEndian.AppendUint64(nil, uint64(p.id)) },
		decode: func(b []byte) *parcel { return all[binary.LittleEndian.Uint64(b)] },
	}
}

// boxFlow and blockFlow are W9.
func boxFlow(impl implementation, o order) (sample, error) {
	n := o.commands(20_000)
	boxes := make([]*block, capacity)
	for i := range boxes {
		boxes[i] = &block{}
	}
	all := make([]*block, n) // few blocks, sent again and again: all of them would be 100 MB
	for i := range all {
		all[i] = boxes[i%len(boxes)]
	}
	s := shape[*block]{steps: nothings[*block](5, 1), capacity: capacity, codec: codec[*block]{
		encode: func(b *block) []byte { return b[:] },
		decode: func(b []byte) *block { return (*block)(b) },
	}}
	return flow(impl.boxes, s, all, o.time())
}

func blockFlow(impl implementation, o order) (sample, error) {
	n := o.commands(20_000)
	s := shape[block]{steps: nothings[block](5, 1), capacity: capacity, codec: codec[block]{
		encode: func(b block) []byte { return append([]byte(nil), b[:]...) },
		decode: func(b []byte) block { return block(b) },
	}}
	return flow(impl.blocks, s, make([]block, n), o.time())
}

// patience is how long a line may make no progress before its commands count as
// lost.
const patience = 20 * time.Second

// flow builds a line, warms it up, and sends all commands through it, over and
// over until the time has passed.
func flow[C any](build func(shape[C]) (line[C], error), s shape[C], all []C, least time.Duration) (sample, error) {
	return flowPatiently(build, s, all, least, patience)
}

func flowPatiently[C any](
	build func(shape[C]) (line[C], error), s shape[C], all []C, least, patience time.Duration,
) (sample, error) {
	var ended tally
	s.end = func(C) { ended.add() }
	l, err := build(s)
	if err != nil {
		return sample{}, err
	}
	defer l.stop()
	warm := all[:max(1, len(all)/10)]
	if err := l.send(warm); err != nil {
		return sample{}, err
	}
	if n := ended.await(len(warm), patience); n < len(warm) {
		return sample{}, fmt.Errorf("%d of the first %d commands never ended", len(warm)-n, len(warm))
	}
	runtime.GC()
	if l.watch != nil {
		defer l.watch()()
	}
	before, sent := used(), 0
	for sent == 0 || time.Since(before.at) < least {
		if err := l.send(all); err != nil {
			return sample{}, err
		}
		// An implementation without bounds is held back here; otherwise its
		// memory would grow for as long as commands are submitted. Bounded ones
		// have already completed that many commands, so the check costs them
		// little.
		ended.await(len(warm)+sent, patience)
		sent += len(all)
	}
	counted := ended.await(sent+len(warm), patience) - len(warm)
	result := sample{Commands: sent, Answered: counted}
	before.since(&result, sent, hops(s.steps))
	if counted != sent {
		return result, fmt.Errorf("%d of %d commands never ended", sent-counted, sent)
	}
	return result, nil
}

func hops[C any](steps []step[C]) int { return len(steps) }

// send submits all commands.
func (l line[C]) send(all []C) error {
	if l.spread != nil {
		l.spread(len(all), func(i int) C { return all[i] })
		return nil
	}
	for _, c := range all {
		if err := l.submit(c); err != nil {
			return err
		}
	}
	if l.flush != nil {
		l.flush()
	}
	return nil
}
