package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/golda-dev/golda/adapter/nats"
)

// execute publishes commands, lets children handle them while it kills the
// children, and counts the outcomes at the end.
func (c config) execute(ctx context.Context) (r result, err error) {
	dir, err := os.MkdirTemp("", "golda-durable")
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	j := job{
		Dir: dir, NATS: c.nats, Name: fmt.Sprintf("durable-%d-%d", os.Getpid(), runs.Add(1)),
		Workers: c.workers, Rotten: c.rotten, Each: c.each,
	}
	defer func() {
		if failed := j.remove(context.WithoutCancel(ctx)); err == nil { // else the server may be away
			err = failed
		}
	}()
	if err := c.publish(ctx, j); err != nil {
		return r, err
	}
	if c.rotten > 0 {
		r.Rotten = (c.commands + c.rotten - 1) / c.rotten
	}
	start := time.Now()
	for done := false; !done; r.Processes++ {
		if done, err = j.spawn(ctx, c.every); err != nil {
			return r, err
		}
		if !done {
			r.Killed++
		}
	}
	r.Took = time.Since(start)
	return r, r.count(ctx, j, c.commands)
}

// runs counts the runs of this process, for their names.
var runs atomic.Int64

// publish publishes the numbers from 0, some at once.
func (c config) publish(ctx context.Context, j job) (err error) {
	conn, numbers, _, err := j.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(16)
	for n := range c.commands {
		all.Go(func() error { return numbers.Publish(ctx, strconv.Itoa(n), n) })
	}
	return all.Wait()
}

// spawn starts a child and kills it a while after its pipeline has started. It
// returns whether the child has done all before that.
func (j job) spawn(ctx context.Context, while time.Duration) (done bool, err error) {
	work, err := json.Marshal(j)
	if err != nil {
		return false, err
	}
	self, err := os.Executable()
	if err != nil {
		return false, err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), workEnv+"="+string(work))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return false, err
	}
	if err := cmd.Start(); err != nil {
		return false, err
	}
	lines := bufio.NewScanner(out)
	var killed atomic.Bool
	if lines.Scan() {
		kill := time.AfterFunc(while, func() {
			killed.Store(true)
			_ = cmd.Process.Kill() // it has ended, if that is not possible
		})
		defer kill.Stop()
		for lines.Scan() { // until it ends
			continue
		}
	}
	err = cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	case err == nil:
		return true, nil
	case killed.Load():
		return false, nil
	default:
		return false, fmt.Errorf("the child process: %w: %s", err, strings.TrimSpace(stderr.String()))
	}
}

// count counts the outcomes and dead letters at the end.
func (r *result) count(ctx context.Context, j job, commands int) (err error) {
	conn, numbers, outcomes, err := j.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	s, err := numbers.Status(ctx)
	if err != nil {
		return err
	}
	r.Published, r.Pending, r.DeadLettered = s.Published, s.Pending, s.DeadLettered
	lines, err := linesOf(j.file())
	if err != nil {
		return err
	}
	r.Effects = len(lines)
	for _, times := range lines {
		r.Handled += times
	}
	dead := map[string]bool{}
	for letter, err := range numbers.Letters(ctx) {
		if err != nil {
			return err
		}
		dead[letter.ID] = true
	}
	for n := range commands {
		id := strconv.Itoa(n)
		outcome, kept, err := outcomes.Get(ctx, id)
		if err != nil {
			return err
		}
		if kept && string(outcome) == strconv.Itoa(2*n) {
			r.Outcomes++
		}
		if (lines[id] == 0 || !kept) && !dead[id] && len(r.Missing) < 10 {
			r.Missing = append(r.Missing, n)
		}
	}
	r.Kept, err = kept(ctx, conn, j.Name)
	return err
}

// kept returns how often a ledger was written.
func kept(ctx context.Context, conn *nats.Conn, ledger string) (uint64, error) {
	stream, err := conn.JetStream().Stream(ctx, "KV_"+ledger)
	if err != nil {
		return 0, err
	}
	return stream.CachedInfo().State.LastSeq, nil
}

// removeTime is how long the removal may take: the server may be away.
const removeTime = 10 * time.Second

// remove removes the streams of the run from a server that is not our own,
// including streams that an interrupted run has left.
func (j job) remove(ctx context.Context) (err error) {
	if j.NATS == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, removeTime)
	defer cancel()
	conn, err := nats.Connect(ctx, j.NATS)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	for _, stream := range []string{"KV_" + j.Name, "GOLDA_" + j.Name, "GOLDA_" + j.Name + "_DEAD", "GOLDA_" + j.Name + "_BACK"} {
		if gone := conn.JetStream().DeleteStream(ctx, stream); !errors.Is(gone, jetstream.ErrStreamNotFound) {
			err = errors.Join(err, gone)
		}
	}
	return err
}

// linesOf counts the lines of a file. The last one may be incomplete after a
// kill: then its command was handled again.
func linesOf(name string) (map[string]int, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	lines := map[string]int{}
	for line := range strings.Lines(string(text)) {
		if id, complete := strings.CutSuffix(line, "\n"); complete {
			lines[id]++
		}
	}
	return lines, nil
}
