package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/examples/internal/show"
	"github.com/golda-dev/golda/examples/internal/twin"
	"github.com/golda-dev/golda/pipeline"
)

// runner is a service or its twin.
type runner interface {
	run(ctx context.Context, l net.Listener) error
}

// newGolda makes a service that logs nothing.
func newGolda(c config, store func(job string)) (runner, *pipeline.Pipeline) {
	s, err := newService(c, store, pipeline.Logger(slog.New(slog.DiscardHandler)))
	if err != nil {
		panic(err)
	}
	return s, s.p
}

// during runs a runner as long as f runs, which is given the address of the jobs.
func during(r runner, f func(url string)) error {
	l, err := show.Listen(context.Background(), "-listen", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	ran := make(chan error, 1)
	go func() { ran <- r.run(ctx, l) }()
	f("http://" + l.Addr().String() + "/jobs")
	stop()
	return <-ran
}

// wide is a configuration that refuses no job.
var wide = config{capacity: 1024, patience: time.Minute}

// send has clients send n jobs, every second of which is waited for, and returns how many were answered with each status.
func send(url string, clients, n int) map[int]int {
	var mu sync.Mutex
	answers := map[int]int{}
	var all sync.WaitGroup
	for c := range clients {
		all.Go(func() {
			client := newClient()
			defer client.CloseIdleConnections()
			for k := c; k < n; k += clients {
				status, _, _ := post(context.Background(), client, url+[...]string{"", "/done"}[k/clients%2], strconv.Itoa(k))
				mu.Lock()
				answers[status]++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return answers
}

// crashing returns a work of a child process: 1,000 jobs, of which 1 % crash.
func crashing(make func(c config, store func(job string)) (runner, *pipeline.Pipeline)) twin.Work {
	return func() error {
		var done atomic.Int64
		r, p := make(wide, func(job string) {
			if strings.HasSuffix(job, "50") {
				panic("store crashed")
			}
			done.Add(1)
		})
		var answers map[int]int
		err := during(r, func(url string) { answers = send(url, 4, 1000) })
		if p != nil {
			_, _ = fmt.Fprintf(os.Stdout, "done: %d, quarantined: %d, answers: %v\n", done.Load(), p.Quarantine().Len(), answers)
		}
		return err
	}
}

// newHand makes a twin.
func newHand(c config, store func(job string)) (runner, *pipeline.Pipeline) {
	return newByHand(c, store), nil
}

// works are what the child processes of TestTheTable do.
var works = map[string]twin.Work{"golda": crashing(newGolda), "hand": crashing(newHand)}

func TestTheResultIsThatOfTheTwin(t *testing.T) {
	for name, make := range map[string]func(config, func(string)) (runner, *pipeline.Pipeline){"golda": newGolda, "by hand": newHand} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			done := map[string]int{}
			r, _ := make(wide, func(job string) {
				mu.Lock()
				defer mu.Unlock()
				done[job]++
			})
			require.NoError(t, during(r, func(url string) {
				assert.Equal(t, map[int]int{http.StatusAccepted: 100, http.StatusNoContent: 100}, send(url, 4, 200))
				client := newClient()
				defer client.CloseIdleConnections()
				for _, c := range []struct {
					query, body string
					want        int
				}{
					{"", " ", http.StatusAccepted},
					{"/done", " ", http.StatusUnprocessableEntity},
					{"/done", " named\n", http.StatusNoContent},
					{"/done", strings.Repeat("x", 2000), http.StatusRequestEntityTooLarge},
					{"/none", "x", http.StatusNotFound},
				} {
					status, _, _ := post(t.Context(), client, url+c.query, c.body)
					assert.Equal(t, c.want, status, "%s %.10q", c.query, c.body)
				}
			}))
			require.Len(t, done, 201)
			require.Equal(t, 1, done["named"])
			for job, times := range done {
				require.Equal(t, 1, times, job)
			}
		})
	}
}

func TestAFullTwinRefusesAndLosesNothing(t *testing.T) {
	l, err := show.Listen(t.Context(), "-listen", "127.0.0.1:0")
	require.NoError(t, err)
	clients := newLoad(l.Addr().String())
	twin := newByHand(config{capacity: 1, patience: time.Minute}, func(job string) {
		time.Sleep(time.Millisecond)
		clients.done(job)
	})
	ctx, stop := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer stop()
	join := clients.start(ctx, 16)
	require.NoError(t, twin.run(ctx, l))
	join()
	require.NoError(t, clients.report(io.Discard))
}

func TestTheTable(t *testing.T) {
	golda, errs, status := twin.Child(t, "golda")
	require.Zero(t, status, errs)
	require.True(t, strings.HasPrefix(golda, "done: 990, quarantined: 10, answers: map[202:"), golda)
	hand, errs, status := twin.Child(t, "hand")
	require.Equal(t, 2, status)
	require.Empty(t, hand)
	require.Contains(t, errs, "panic: store crashed")

	const n = 40_000
	work := func(make func(config, func(string)) (runner, *pipeline.Pipeline)) twin.Work {
		return func() error {
			r, _ := make(wide, func(string) {})
			return during(r, func(url string) { send(url, 8, n) })
		}
	}
	rows := twin.Code(t, "service.go", "twin_test.go", "main.go", "load.go", "job.go")
	rows = append(rows, twin.Cost(t, "job", n, work(newGolda), work(newHand))...)
	twin.Check(t, append(rows, twin.Row{
		Name:  "1,000 jobs, 1 % of them panic",
		Golda: "990 are done, 10 are in quarantine with their stacks; each client that waits for one is answered 500",
		Hand:  "the process ends with status 2; the jobs in its queue and the requests under way are lost",
	}))
}
