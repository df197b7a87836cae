package nats_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// load is what a process publishes that measures its own memory, much more than it may take.
type load struct {
	Messages, Size int
	Wait           bool // for room; otherwise messages are refused
}

// weighed is what it has measured: bytes of the heap that are alive.
type weighed struct {
	Before, Most                 int64
	Published, Refused, Overload uint64
	Waiting                      int // the most commands that were in the queue of the stage that publishes
}

// bounded are the options of the inlet: it holds 8 MiB of the messages.
var bounded = nats.Options[string]{MaxMessages: 500, MaxInFlight: 16}

// pieces is how large a message is.
const pieces = 16 << 10

// weigh is the main function of a process that publishes. Without a URL it has the server and the slow consumer as well.
func (j job) weigh(ctx context.Context) (err error) {
	conn, err := nats.Embed(filepath.Join(j.Dir, "store"), nats.Store{})
	if j.URL != "" {
		conn, err = nats.Connect(ctx, j.URL)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	texts, err := nats.NewInlet(ctx, conn, "texts", bounded)
	if err != nil {
		return err
	}
	parts := []pipeline.Part{quiet}
	full := make(chan struct{}) // is closed when the stream was full
	if j.URL == "" {
		slow := slowStage(full, nil)
		parts = append(parts, slow, pipeline.Feed("texts", slow, texts.Feed))
	}
	overloaded := func(err error) bool { _, yes := stage.Overloaded(err); return yes }
	w := weighed{Before: heap()}
	publisher := stage.Sink("publish", func(ctx context.Context, s string) error { return texts.Publish(ctx, "", s) },
		stage.Capacity(64), stage.Retry(stage.RetryPolicy{Attempts: 1 << 20, Backoff: 5 * time.Millisecond, Max: 5 * time.Millisecond, If: overloaded}))
	p, err := pipeline.New("publisher", append(parts, publisher)...)
	if err != nil {
		return err
	}
	if err := p.Start(ctx); err != nil {
		return err
	}
	published := make(chan struct{})
	go func() {
		defer close(full)
		for !j.Load.Wait || texts.Counts().Refused == 0 {
			select {
			case <-published:
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	for k := range j.Load.Messages {
		text := strconv.Itoa(k) + strings.Repeat("x", j.Load.Size)
		if j.Load.Wait {
			err = publisher.Submit(ctx, text)
		} else if err = texts.Publish(ctx, "", text); errors.Is(err, nats.ErrFull) && overloaded(err) {
			w.Overload++
			err = nil
		}
		if err != nil {
			return err
		}
		if k%100 == 0 {
			w.Most = max(w.Most, heap())
			w.Waiting = max(w.Waiting, publisher.Snapshot().Queue.Queued)
		}
	}
	close(published)
	for j.Load.Wait && texts.Counts().Published < uint64(j.Load.Messages) {
		time.Sleep(time.Millisecond)
	}
	w.Published, w.Refused = texts.Counts().Published, texts.Counts().Refused
	if err := p.Stop(ctx); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(w)
}

// slowStage is a stage that is slower than any publisher: it does nothing until the stream was full.
func slowStage(full <-chan struct{}, done *atomic.Int64) *stage.Flow[string, struct{}] {
	return stage.Sink("slow", func(ctx context.Context, _ string) error {
		select {
		case <-full:
		case <-ctx.Done():
			return ctx.Err()
		}
		time.Sleep(2 * time.Millisecond)
		if done != nil {
			done.Add(1)
		}
		return nil
	}, stage.Workers(4, 4))
}

// The publisher is a process of its own. It publishes 32 and 160 MB, and the stream holds 8.
func TestASlowConsumerDoesNotGrowTheMemoryOfThePublisher(t *testing.T) {
	lasts(t)
	t.Parallel()
	for name, c := range map[string]struct {
		load     load
		embedded bool
		most     int64 // that the publisher may need more than before; the server keeps some files in its memory
	}{
		"that is refused":                     {load{10_000, pieces, false}, false, 16 << 20},
		"that waits":                          {load{2_000, pieces, true}, false, 16 << 20},
		"that has the server, and is refused": {load{10_000, pieces, false}, true, 64 << 20},
		"that has the server, and waits":      {load{2_000, pieces, true}, true, 64 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := job{Dir: t.TempDir(), Load: &c.load}
			var done atomic.Int64
			var texts *nats.Inlet[string]
			full := make(chan struct{})
			if !c.embedded {
				s := serve(t, &server.Options{})
				conn, err := nats.Connect(t.Context(), s.ClientURL())
				require.NoError(t, err)
				defer shut(t, conn)
				texts = inlet(t, conn, "texts", bounded)
				newPipeline(t, slowStage(full, &done), texts.Feed)
				j.URL = s.ClientURL()
			}
			text, err := json.Marshal(j)
			require.NoError(t, err)
			self, err := os.Executable()
			require.NoError(t, err)
			cmd := exec.CommandContext(t.Context(), self)
			cmd.Env = append(os.Environ(), jobEnv+"="+string(text))
			var watch sync.WaitGroup
			if texts != nil && c.load.Wait {
				watch.Go(func() {
					defer close(full)
					eventually(t, "the stream is full", func() bool { return status(t, texts).Pending >= uint64(bounded.MaxMessages) })
				})
			}
			out, err := cmd.Output()
			watch.Wait()
			require.NoError(t, err, "%s", out)
			if texts != nil && !c.load.Wait {
				close(full)
			}
			var w weighed
			require.NoError(t, json.Unmarshal(out, &w), "%s", out)
			t.Logf("%+v", w)
			require.Less(t, w.Most, w.Before+c.most, "the memory of the publisher grows")
			if c.load.Wait {
				require.EqualValues(t, c.load.Messages, w.Published)
				require.LessOrEqual(t, w.Waiting, 64)
			} else {
				require.EqualValues(t, c.load.Messages, w.Published+w.Refused)
				require.Equal(t, w.Refused, w.Overload)
				require.Greater(t, w.Refused, w.Published/2, "the stream was seldom full")
			}
			if texts != nil {
				eventually(t, "all that was published is handled", func() bool { return done.Load() == int64(w.Published) })
			}
		})
	}
}
