package main

import (
	"bytes"
	"context"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/examples/internal/show"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/window/event"
)

// job is the work of a child.
type job struct {
	Log    string        // the input
	Dir    string        // of the checkpoint, the results and the report
	Period time.Duration // of the checkpoint
}

func (j job) in(name string) string { return filepath.Join(j.Dir, name) }

func (j job) report() string { return j.in("report") }

// progress is where a child is.
type progress struct {
	Position, Total int64 // bytes of the log
	Checkpoint      int64 // the position that is saved
}

// work sums up the log, and writes the report:
//
//	lines ──▶ parse ──▶ per minute ──▶ results
//	                              └──▶ total
func (j job) work(ctx context.Context, started func(*pipeline.Pipeline)) (err error) {
	log, err := os.Open(j.Log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	done, err := openResults(j.in("results"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done.Close()) }()

	var late atomic.Int64
	parsed := stage.Map("parse", parse, stage.Ordered())
	perMinute := event.Tumbling("per minute", time.Minute, event.Sum(hit.at, hit.host, count.plus),
		event.Watermark[hit]{Disorder: latest * time.Second, Dropped: &late})
	written := stage.Sink("results", func(_ context.Context, w minute) error {
		return done.put(w.Start.Format("2006-01-02T15:04 ")+w.Key, w.Value)
	})
	total := stage.Keyed("total", func(w minute) string { return w.Key },
		func(host string) *summer { return &summer{host: host, put: done.put} })
	p, err := pipeline.New("etl", parsed.To(perMinute), perMinute.To(written, total),
		pipeline.Feed("lines", parsed, source.Lines(log, 0)),
		pipeline.Checkpoint(j.in("checkpoint"), j.Period),
		pipeline.Logger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return err
	}
	go func() {
		select {
		case <-p.Started():
			started(p)
		case <-p.Done():
		}
	}()
	if err := p.Run(ctx); err != nil {
		return err
	}
	if n := late.Load(); n > 0 {
		return fmt.Errorf("%d lines were late", n)
	}
	return done.report(j.report())
}

// minute is the count of a host in a minute.
type minute = event.Window[string, count]

// summer adds up the minutes of a host. Its count is saved in the checkpoint.
type summer struct {
	host string
	sum  count
	put  func(key string, c count) error
}

func init() { gob.Register(count{}) }

// HandleCommand adds a minute, and writes the sum.
func (s *summer) HandleCommand(_ context.Context, w minute) behaviour.Outcome {
	sum := count{s.sum.Requests + w.Value.Requests, s.sum.Bytes + w.Value.Bytes}
	if err := s.put("total "+s.host, sum); err != nil {
		return behaviour.Error(err)
	}
	s.sum = sum
	return behaviour.OK(nil)
}

// Snapshot returns the sum.
func (s *summer) Snapshot() any { return s.sum }

// Restore takes the sum of an earlier process.
func (s *summer) Restore(state any) error {
	s.sum = state.(count) //nolint:forcetypeassert // of Snapshot
	return nil
}

// results is a file with a line for each result. A result that a process writes
// again after a kill has the same key, and the last line of a key counts.
type results struct{ *os.File }

// openResults opens the file, without the end of a line that a kill has cut
// off.
func openResults(name string) (results, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return results{}, err
	}
	text, err := os.ReadFile(name)
	if err == nil {
		err = f.Truncate(int64(bytes.LastIndexByte(text, '\n') + 1))
	}
	if err != nil {
		return results{}, errors.Join(err, f.Close())
	}
	return results{f}, nil
}

// put writes a result. A line is one call of Write, so that several stages may
// write at once.
func (r results) put(key string, c count) error {
	_, err := fmt.Fprintf(r, "%s: %d requests, %d bytes\n", key, c.Requests, c.Bytes)
	return err
}

// report writes the last line of each key, sorted.
func (r results) report(name string) error {
	text, err := os.ReadFile(r.Name())
	if err != nil {
		return err
	}
	last := map[string]string{}
	for line := range strings.Lines(string(text)) {
		key, _, _ := strings.Cut(line, ": ")
		last[key] = line
	}
	return os.WriteFile(name, []byte(strings.Join(slices.Sorted(maps.Values(last)), "")), 0o600)
}

// workEnv has the job of a child process.
const workEnv = "GOLDA_ETL_JOB"

// child is the main function of a child process. It writes where it is, again
// and again.
func child(work string) (status int) {
	var j job
	err := json.Unmarshal([]byte(work), &j)
	if err == nil {
		err = j.work(context.Background(), tell)
	}
	return show.Status(os.Stderr, "etl: child", err)
}

// tell writes the progress of a pipeline until that has ended.
func tell(p *pipeline.Pipeline) {
	out := json.NewEncoder(os.Stdout)
	for tick := time.Tick(5 * time.Millisecond); ; {
		f := p.Snapshot().Feeds[0]
		if out.Encode(progress{f.Position, f.Total, f.Checkpoint}) != nil {
			return // the parent is away
		}
		select {
		case <-tick:
		case <-p.Done():
			return
		}
	}
}
