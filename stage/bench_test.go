package stage_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// The same work in different ways: five stages in a line that do nothing, for a
// command passed by pointer. The time includes submitting; it ends when the last command has left the last stage.
//
//	go test -run '^$' -bench Line -count 10 ./stage | tee line.txt && benchstat -col /by line.txt
const hops = 5

type parcel struct{ _ int }

func BenchmarkLine(b *testing.B) {
	b.Run("by=golda", func(b *testing.B) { benchStages(b, b.Context, 1) })
	b.Run("by=golda64", func(b *testing.B) { benchStages(b, b.Context, 64) }) // SubmitAll, 64 at a time
	valued := func(ctx context.Context) context.Context { return context.WithValue(ctx, parcel{}, 1) }
	b.Run("by=values", func(b *testing.B) { // of one context for all commands
		ctx := valued(b.Context())
		benchStages(b, func() context.Context { return ctx }, 1)
	})
	b.Run("by=request", func(b *testing.B) { // of a context for each
		benchStages(b, func() context.Context { return valued(b.Context()) }, 1)
	})
	b.Run("by=chan", benchChannels)
	b.Run("by=direct", benchCalls)
}

// lastContext counts down to the end.
type lastContext struct {
	left int
	done chan struct{}
}

func (l *lastContext) HandleCommand(context.Context, *parcel) behaviour.Outcome {
	if l.left--; l.left == 0 {
		close(l.done)
	}
	return behaviour.OK(nil)
}

func benchStages(b *testing.B, ctx func() context.Context, many int) {
	end := &lastContext{left: b.N, done: make(chan struct{})}
	next := stage.New("5", end, stage.Workers(1, 1))
	parts := []pipeline.Part{next, pipeline.Control(policy.Fixed{})}
	first := next
	for i := hops - 1; i >= 1; i-- {
		to := next
		next = stage.New(string(rune('0'+i)), behaviour.Func[*parcel](
			func(_ context.Context, p *parcel) behaviour.Outcome { return behaviour.Forward(to, p) }),
			stage.Workers(1, 1))
		parts = append(parts, next)
		first = next
	}
	p, err := pipeline.New("line", parts...)
	if err != nil {
		b.Fatal(err)
	}
	if err := p.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	cmd := &parcel{}
	cmds := slices.Repeat([]*parcel{cmd}, many)
	b.ReportAllocs()
	b.ResetTimer()
	for left := b.N; left > 0; left -= many {
		var err error
		if many == 1 {
			err = first.Submit(ctx(), cmd)
		} else {
			_, err = first.SubmitAll(ctx(), cmds[:min(many, left)]...)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	<-end.done
	b.StopTimer()
	perHop(b)
	if err := p.Stop(context.Background()); err != nil {
		b.Fatal(err)
	}
}

func benchChannels(b *testing.B) {
	in := make(chan *parcel, 1024)
	next := in
	var wg sync.WaitGroup
	for range hops {
		from, to := next, make(chan *parcel, 1024)
		next = to
		wg.Go(func() {
			defer close(to)
			for p := range from {
				to <- p
			}
		})
	}
	wg.Go(func() {
		for range next { // the last goroutine takes all and keeps nothing
		}
	})
	cmd := &parcel{}
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		in <- cmd
	}
	close(in)
	wg.Wait()
	b.StopTimer()
	perHop(b)
}

//go:noinline
func pass(p *parcel) *parcel { return p }

func benchCalls(b *testing.B) {
	line := [hops]func(*parcel) *parcel{pass, pass, pass, pass, pass}
	cmd := &parcel{}
	b.ReportAllocs()
	for b.Loop() {
		p := cmd
		for _, f := range line {
			p = f(p)
		}
	}
	perHop(b)
}

func perHop(b *testing.B) {
	b.Helper()
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/hops, "ns/hop")
}
