package main

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/letters"
	"github.com/golda-dev/golda/stage"
)

// order is a number of pieces of an item, and the number of boxes to pack them
// into.
type order struct {
	item          string
	pieces, boxes int
}

func (o order) String() string { return fmt.Sprintf("%d %q in %d boxes", o.pieces, o.item, o.boxes) }

// initial is faulty: an item may have no name.
func initial(item string) byte { return item[0] }

// perBox is faulty, too: an order may have no boxes. Once the fault is fixed,
// such an order has one.
func perBox(o order, fixed bool) int {
	if fixed {
		return o.pieces / max(o.boxes, 1)
	}
	return o.pieces / o.boxes
}

// packing is a stage that meets two kinds of poison.
func packing(fixed *atomic.Bool) *stage.Stage[order] {
	return stage.Func("pack", func(_ context.Context, o order) behaviour.Outcome {
		return behaviour.OK(fmt.Sprintf("%c: %d", initial(o.item), perBox(o, fixed.Load())))
	}, stage.Workers(2, 2), stage.Retry(stage.RetryPolicy{Attempts: 3}))
}

// ordersOf returns thirty orders, five of them poison.
func ordersOf() (all []order) {
	for i := range 30 {
		o := order{item: "pen", pieces: 10 * (i + 1), boxes: 1 + i%5}
		switch {
		case i%10 == 7:
			o.boxes = 0
		case i%15 == 3:
			o.item = ""
		}
		all = append(all, o)
	}
	return all
}

// quarantine: a command that crashes its handler at every attempt is kept, with
// its stack. Letters with the same cause form one group.
func quarantine(ctx context.Context, s *story) error {
	p, err := poisoned(ctx, s, new(atomic.Bool))
	if err != nil {
		return err
	}
	s.didf("The quarantine, by cause:")
	for _, g := range p.Quarantine().Groups() {
		s.sawf("%d letters of stage %q, fingerprint %s, at %s", g.Seen, g.Stage, g.Fingerprint, place(g.Example.Stack))
	}
	s.didf("And letter by letter:")
	for _, letter := range p.Quarantine().List(letters.Filter{OldestFirst: true}) {
		_, why, _ := strings.Cut(letter.Err.Error(), ": ")
		s.sawf("%d. %v, %s", letter.ID, letter.Command, why)
	}
	return s.end(p) //nolint:contextcheck // it stops softly although ctx has ended
}

// poisoned returns a pipeline that has processed the thirty orders.
func poisoned(ctx context.Context, s *story, fixed *atomic.Bool) (*pipeline.Pipeline, error) {
	pack := packing(fixed)
	all := ordersOf()
	list := make(chan stage.DeadLetter, len(all)) // a subscriber must not block
	p, err := startQuietly(ctx, "quarantine", pack, pipeline.DeadLetters(func(l stage.DeadLetter) { list <- l }))
	if err != nil {
		return nil, err
	}
	s.didf("%d orders are packed; some of them crash their handler, at each of three attempts.", len(all))
	bad := 0
	for _, o := range all {
		switch _, err := stage.Call[string](ctx, pack, o); {
		case stage.Crashed(err):
			bad++
		case err != nil:
			return nil, err
		}
	}
	for range bad { // a letter is stored just after its caller has the error
		<-list
	}
	s.sawf("%d were packed, %d were not: their senders got an error.", len(all)-bad, bad)
	return p, nil
}
