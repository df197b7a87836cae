package stage_test

import (
	"context"
	"testing"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// Requests, one after another, to one stage that replies with the command. For comparison: the same with a ticket, and with a
// goroutine that replies to a channel in the request.
//
//	go test -run '^$' -bench Call -count 10 ./stage | tee call.txt && benchstat -col /by call.txt
func BenchmarkCall(b *testing.B) {
	b.Run("by=golda", func(b *testing.B) {
		s := callee(b)
		ctx, cmd := context.Background(), &parcel{}
		for b.Loop() {
			if _, err := stage.Call[*parcel](ctx, s, cmd); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("by=ending", func(b *testing.B) { // with a context that can end
		s := callee(b)
		ctx, cmd := b.Context(), &parcel{}
		for b.Loop() {
			if _, err := stage.Call[*parcel](ctx, s, cmd); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("by=ticket", func(b *testing.B) {
		s := callee(b)
		ctx, cmd := context.Background(), &parcel{}
		for b.Loop() {
			t, err := s.Ask(ctx, cmd)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := t.Wait(ctx); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("by=chan", benchReplies)
}

func callee(b *testing.B) *stage.Stage[*parcel] {
	b.Helper()
	s := stage.Func("callee", func(_ context.Context, p *parcel) behaviour.Outcome { return behaviour.OK(p) }, stage.Workers(1, 1))
	p, err := pipeline.New("call", s, pipeline.Control(policy.Fixed{}))
	if err != nil {
		b.Fatal(err)
	}
	if err := p.Start(context.Background()); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := p.Stop(context.Background()); err != nil {
			b.Error(err)
		}
	})
	b.ReportAllocs()
	return s
}

func benchReplies(b *testing.B) {
	type request struct {
		cmd   *parcel
		reply chan *parcel
	}
	in := make(chan request, 1024)
	go func() {
		for r := range in {
			r.reply <- r.cmd
		}
	}()
	ctx, cmd := context.Background(), &parcel{}
	b.ReportAllocs()
	for b.Loop() {
		r := request{cmd, make(chan *parcel, 1)}
		in <- r
		select {
		case <-r.reply:
		case <-ctx.Done():
			b.Fatal(ctx.Err())
		}
	}
	close(in)
}
