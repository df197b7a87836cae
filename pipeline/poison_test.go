package pipeline_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// order is the command of the stages under load.
type order struct {
	ID    int `json:"id"`
	Items []struct {
		Name  string `json:"name"`
		Price int    `json:"price"`
	} `json:"items"`
	total int
}

// goodOrder is read, added up and booked. An order without items is poison: reading its first item crashes.
const (
	goodOrder   = `{"id": 7, "items": [{"name": "pen", "price": 3}, {"name": "paper", "price": 12}]}`
	poisonOrder = `{"id": 13, "items": []}`
)

// shop is a pipeline of three stages that do a little work each. The default policy sets the numbers of workers.
func shop(t *testing.T, booked *atomic.Int64, tries int, parts ...pipeline.Part) (*pipeline.Pipeline, *stage.Stage[string]) {
	t.Helper()
	book := stage.Func("book", func(_ context.Context, o *order) behaviour.Outcome {
		booked.Add(1)
		return behaviour.OK(o.total)
	})
	price := stage.Func("price", func(_ context.Context, o *order) behaviour.Outcome {
		o.total = o.Items[0].Price
		for _, item := range o.Items[1:] {
			o.total += item.Price
		}
		return behaviour.Forward(book, o)
	}, stage.Retry(stage.RetryPolicy{Attempts: tries}))
	read := stage.Func("read", func(_ context.Context, text string) behaviour.Outcome {
		o := &order{}
		if err := json.Unmarshal([]byte(text), o); err != nil {
			return behaviour.Error(err)
		}
		return behaviour.Forward(price, o)
	})
	p, err := pipeline.New("shop", append(parts, read, price, book, quiet, pipeline.System(system()))...)
	require.NoError(t, err)
	require.NoError(t, p.Start(context.Background()))
	return p, read
}

// stormy is the result of a storm.
type stormy struct {
	perSecond float64       // good orders booked
	each      time.Duration // CPU time for each of them
	snapshot  pipeline.Snapshot
	groups    []pipeline.LetterGroup
	kept      int // letters in quarantine
}

// storm submits orders at full speed for a while, some of a thousand of them poison.
func storm(t *testing.T, lasts time.Duration, poison, tries int) (s stormy) {
	t.Helper()
	var booked, sent atomic.Int64
	p, read := shop(t, &booked, tries, pipeline.KeepLetters(mostPoison))
	ctx, cancel := context.WithTimeout(context.Background(), lasts)
	defer cancel()
	began, used := time.Now(), cpuUsed()
	var senders sync.WaitGroup
	for part := range 2 {
		senders.Go(func() {
			rnd := rand.New(rand.NewPCG(1, uint64(part)))
			for ctx.Err() == nil || booked.Load() == 0 || (poison > 0 && sent.Load() == 0) {
				text := goodOrder
				if rnd.IntN(1000) < poison {
					text = poisonOrder
					sent.Add(1)
				}
				if read.Submit(context.Background(), text) != nil { //nolint:contextcheck // until it is closed
					return
				}
			}
		})
	}
	senders.Wait()
	require.NoError(t, p.Drain(soon(t)))
	s.perSecond = float64(booked.Load()) / time.Since(began).Seconds()
	s.each = (cpuUsed() - used) / time.Duration(booked.Load())
	require.NoError(t, p.Err(), "no escalation")
	require.NoError(t, p.Stop(soon(t))) // a letter is stored just after its command has ended
	s.snapshot, s.groups = p.Snapshot(), p.Quarantine().Groups()
	for _, l := range p.Quarantine().List(pipeline.LetterFilter{}) {
		require.Contains(t, string(l.Stack), "pipeline_test.shop")
		require.Equal(t, tries, l.Attempts)
		s.kept++
	}
	atRest(t, p)
	require.EqualValues(t, booked.Load(), s.snapshot.Replied)
	require.EqualValues(t, sent.Load(), s.snapshot.DeadLettered)
	return s
}

// One order in a hundred is poison, at full speed, and crashes in each of its attempts:
//
//	go test -v -run OnePercentPoison ./pipeline         # three rounds of a fifth of a second
//	go test -v -run OnePercentPoison ./pipeline -long   # a minute of it, in rounds of three seconds
//
// The two kinds of run alternate, because the load of the machine changes. CPU time depends less than throughput on what else
// the machine does.
func TestOnePercentPoisonAtFullSpeedIsAllQuarantined(t *testing.T) {
	rounds, lasts := 3, 200*time.Millisecond
	if *long {
		rounds, lasts = 20, 3*time.Second
	}
	for _, tries := range []int{1, 3} {
		t.Run(fmt.Sprintf("tries=%d", tries), func(t *testing.T) {
			var speed, cost []float64
			for round := range rounds {
				clean, mixed := storm(t, lasts, 0, tries), storm(t, lasts, 10, tries)
				mixed.allInQuarantine(t, tries)
				speed = append(speed, mixed.perSecond/clean.perSecond)
				cost = append(cost, float64(mixed.each)/float64(clean.each))
				t.Logf("round %d: %.0f good orders a second, %v of CPU each; with poison %.0f, %v; %d letters in quarantine",
					round+1, clean.perSecond, clean.each, mixed.perSecond, mixed.each, mixed.kept)
				runtime.GC()
			}
			slices.Sort(speed)
			slices.Sort(cost)
			t.Logf("with poison, medians of %d rounds: %.3f of the throughput (%.3f to %.3f), %.3f times the CPU time (%.3f to %.3f)",
				rounds, speed[rounds/2], speed[0], speed[rounds-1], cost[rounds/2], cost[0], cost[rounds-1])
			if *long && tries == 1 {
				require.GreaterOrEqual(t, speed[rounds/2], 0.9)
			}
		})
	}
}

// allInQuarantine requires that exactly the poison orders are in quarantine, all in one group.
func (s *stormy) allInQuarantine(t *testing.T, tries int) {
	t.Helper()
	n := s.snapshot.DeadLettered
	require.Positive(t, n)
	require.Zero(t, s.snapshot.Stages[0].Crashes)
	require.Equal(t, uint64(tries)*n, s.snapshot.Stages[1].Crashes, "each crashed in all its attempts")
	require.Len(t, s.groups, 1, "one place, one group")
	require.Equal(t, n, s.groups[0].Seen)
	require.EqualValues(t, n, s.kept, "every one, with its stack")
}

// mostPoison is the bound of the quarantine: more letters than a round leaves. They share one stack, so each takes its command
// and some 300 bytes.
const mostPoison = 1 << 18

// BenchmarkPoison measures what a poison command costs: it has one attempt, ends in quarantine, and the worker starts afresh. For each
// there are ten good commands that do nothing.
func BenchmarkPoison(b *testing.B) {
	for name, bad := range map[string]int{"with=none": 0, "with=poison": -1} {
		b.Run(name, func(b *testing.B) {
			s := stage.New("s", fn(poison), stage.Workers(1, 1))
			p, err := pipeline.New("bench", s, quiet, pipeline.System(system()), pipeline.Control(policy.Fixed{}))
			require.NoError(b, err)
			require.NoError(b, p.Start(context.Background()))
			for b.Loop() {
				for range 10 {
					_ = s.Submit(context.Background(), 1)
				}
				_ = s.Submit(context.Background(), bad)
			}
			require.NoError(b, p.Stop(context.Background()))
		})
	}
}
