package nats_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// parcel is a command of a sender.
type parcel struct{ Sender, N int }

// parcels has in which order the parcels of each sender have arrived.
type parcels struct {
	mu    sync.Mutex
	of    map[int][]int
	total int
}

func (p *parcels) arrive(s parcel) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.of[s.Sender] = append(p.of[s.Sender], s.N)
	p.total++
}

func (p *parcels) len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.total
}

// The limit of the stream is far below what the senders send at once, so it is full nearly all the time.
func TestAFullStreamKeepsTheOrderOfEachSender(t *testing.T) {
	t.Parallel()
	const senders = 3
	n := 2000
	if race {
		n = 500 // still ten times what the stream holds
	}
	for name, o := range map[string]nats.Options[any]{"messages": {MaxMessages: 50}, "bytes": {MaxBytes: 8 << 10}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, got := embed(t, t.TempDir(), nats.Store{}), &parcels{of: map[int][]int{}}
			start := func(process string) *stage.Flow[parcel, parcel] {
				load := stage.Map("load", func(_ context.Context, s parcel) (parcel, error) { return s, nil }, stage.Workers(1, 1))
				sort := stage.Sink("sort", func(_ context.Context, s parcel) error { got.arrive(s); return nil }, stage.Workers(1, 1))
				p, err := pipeline.New("post", quiet, load.To(sort), pipeline.Assign("front", "load"), pipeline.Assign("sort", "sort"),
					pipeline.RunsHere(nats.NewCarrier(conn, "post", o), process))
				require.NoError(t, err)
				require.NoError(t, p.Start(t.Context()))
				t.Cleanup(func() { assert.NoError(t, p.Stop(context.Background())) })
				return load
			}
			start("sort")
			var sending sync.WaitGroup
			for s := range senders {
				load := start("front")
				sending.Go(func() {
					for i := range n {
						assert.NoError(t, load.Submit(context.Background(), parcel{s, i}))
					}
				})
			}
			sending.Wait()
			require.Eventually(t, func() bool { return got.len() == senders*n }, time.Minute, 10*time.Millisecond)
			for s := range senders {
				require.IsIncreasing(t, got.of[s], s)
			}
		})
	}
}
