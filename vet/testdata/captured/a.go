package captured

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/stage"
)

type counter struct{ n int }

var total int

func races() {
	sum, seen, list, c := 0, map[int]bool{}, []int(nil), &counter{}
	stage.Sink("count", func(_ context.Context, n int) error {
		sum += n               // want `the handler changes sum, and several workers may run it at once`
		seen[n] = true         // want `the handler changes seen`
		list = append(list, n) // want `the handler changes list`
		c.n++                  // want `the handler changes c,`
		total = n              // want `the handler changes total`
		return nil
	})
	stage.Sink("named", count)
	stage.Map("double", func(_ context.Context, n int) (int, error) {
		sum++ // want `the handler changes sum`
		return 2 * n, nil
	}, stage.Workers(1, 4))
}

func count(_ context.Context, n int) error {
	total += n // want `the handler changes total`
	return nil
}

func fine() {
	var mu sync.Mutex
	var n atomic.Int64
	sum := 0
	results := make([]int, 10)
	stage.Sink("locked", func(context.Context, int) error {
		mu.Lock()
		defer mu.Unlock()
		sum++
		return nil
	})
	stage.Sink("one worker", func(_ context.Context, n int) error { sum += n; return nil }, stage.Workers(1, 1))
	stage.Sink("a slot each", func(_ context.Context, i int) error { results[i] = 2 * i; return nil })
	stage.Func("its own", func(_ context.Context, cmd int) behaviour.Outcome {
		mine := cmd
		mine++
		cmd = mine
		n.Add(int64(cmd))
		return behaviour.OK(nil)
	})
	stage.Sink("accepted", func(_ context.Context, i int) error {
		sum = i //golda:ok the caller submits one command at a time
		return nil
	})
}
