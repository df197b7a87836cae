package nats_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/adapter/nats/jobs"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/reason"
)

// killedJobs are the options of the job queue of processes that are killed.
var killedJobs = nats.Options[string]{
	Lanes: map[string]int{"urgent": 8, "bulk": 1}, Lane: func(cmd string) string {
		if strings.HasSuffix(cmd, "3") {
			return "urgent"
		}
		return "bulk"
	},
	Jobs: true, MaxInFlight: 64, AckWait: time.Second, Retry: stage.RetryPolicy{Attempts: 1000, Backoff: 50 * time.Millisecond},
	Logger: slog.New(slog.DiscardHandler),
}

// mayBeCanceled reports whether the processes may cancel a command. Some of these take long, until they are canceled.
func mayBeCanceled(cmd string) bool { return strings.HasSuffix(cmd, "9") }

// change cancels jobs and moves jobs to other lanes, in any state, until ctx ends. It writes down each act before it does it.
func (j job) change(ctx context.Context, queue *nats.Inlet[string]) error {
	changes, err := os.OpenFile(filepath.Join(j.Dir, j.Name+".changes"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = changes.Close() }()
	for ctx.Err() == nil {
		state := []jobs.State{jobs.Delayed, jobs.Pending, jobs.InFlight}[rand.IntN(3)]
		for found, err := range queue.Jobs(ctx, jobs.Filter{State: state, Limit: 1 + rand.IntN(32)}) {
			cmd, unquoted := strconv.Unquote(string(found.Data))
			if err != nil || unquoted != nil || rand.IntN(4) > 0 {
				continue // the server may be killed meanwhile
			}
			verb := "move"
			if mayBeCanceled(cmd) && rand.IntN(2) == 0 {
				verb = "cancel"
			}
			if _, err := fmt.Fprintln(changes, verb, cmd); err != nil {
				return err
			}
			if verb == "cancel" {
				_, _ = queue.Cancel(ctx, found)
			} else {
				_, _ = queue.SetLane(ctx, found, []string{"urgent", "bulk"}[rand.IntN(2)])
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	return nil
}

// changesOf returns the commands which the processes may have canceled, and how many they may have moved.
func changesOf(t *testing.T, dir string) (canceled map[string]bool, moves int) {
	t.Helper()
	canceled = map[string]bool{}
	names, err := filepath.Glob(filepath.Join(dir, "*.changes"))
	require.NoError(t, err)
	for _, name := range names {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			switch verb, cmd, _ := strings.Cut(strings.TrimSpace(line), " "); verb {
			case "cancel":
				canceled[cmd] = true
			case "move":
				moves++
			}
		}
	}
	return canceled, moves
}

// ticking is the schedule that each process declares when it starts.
var ticking = jobs.Schedule{Name: "tick", Every: time.Second}

// handleJobs feeds a pipeline from the job queue until the standard input ends. Each job is a line in the file of the process: the command,
// when it was due, and when it was handled.
func (j job) handleJobs(ctx context.Context) (err error) {
	var conn *nats.Conn
	var queue *nats.Inlet[string]
	again := func(f func() error) error { // the server may be killed meanwhile
		for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
			if err := f(); err == nil || time.Since(begin) > 2*time.Minute {
				return err
			}
		}
	}
	err = again(func() (err error) {
		conn, err = nats.Connect(ctx, j.URL)
		return err
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	err = again(func() (err error) {
		queue, err = nats.NewInlet(ctx, conn, "jobs", killedJobs)
		return err
	})
	if err != nil {
		return err
	}
	effects, err := os.OpenFile(filepath.Join(j.Dir, j.Name+".effects"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, effects.Close()) }()
	work := stage.Sink("work", func(ctx context.Context, cmd string) error {
		now, due := time.Now(), int64(0)
		info, _ := jobs.Of(ctx)
		if !info.Due.IsZero() {
			due = info.Due.UnixNano()
		}
		if info.Schedule != "" {
			cmd += strconv.FormatInt(due, 10)
		}
		if strings.HasSuffix(cmd, "99") {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(100 * time.Millisecond):
			}
		}
		_, err := fmt.Fprintf(effects, "%s %d %d\n", cmd, due, now.UnixNano())
		time.Sleep(time.Millisecond)
		return err
	}, stage.Workers(4, 4))
	p, err := pipeline.New(j.Name, work, pipeline.Feed("jobs", work, queue.Feed), quiet)
	if err != nil {
		return err
	}
	if err := p.Start(ctx); err != nil {
		return err
	}
	if err := again(func() error { return queue.Schedule(ctx, ticking, "tick") }); err != nil {
		return err
	}
	changing, stop := context.WithCancel(ctx)
	defer stop()
	changed := make(chan error, 1)
	go func() { changed <- j.change(changing, queue) }()
	told := make(chan struct{})
	go func() {
		defer close(told)
		_, _ = io.Copy(io.Discard, os.Stdin) // it ends when the parent says so
	}()
	for ticks := time.NewTicker(20 * time.Millisecond); ; {
		select {
		case <-ticks.C:
			j.say(report{Counts: queue.Counts(), Feed: p.Snapshot().Feeds[0].State})
			continue
		case <-told:
		}
		break
	}
	stop()
	err = errors.Join(<-changed, p.Stop(ctx))
	j.say(report{Counts: queue.Counts(), Done: true})
	return err
}

func (j job) say(r report) {
	line, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	_, _ = os.Stdout.Write(append(line, '\n')) // its parent has ended, if it does not read
}

// effect is a line of a job that was handled.
type effect struct{ due, at time.Time }

// effectsOf returns the lines that the processes have written, by command.
func effectsOf(t *testing.T, dir string) map[string][]effect {
	t.Helper()
	all := map[string][]effect{}
	names, err := filepath.Glob(filepath.Join(dir, "*.effects"))
	require.NoError(t, err)
	for _, name := range names {
		f, err := os.Open(name)
		require.NoError(t, err)
		for lines := bufio.NewScanner(f); lines.Scan(); {
			words := strings.Fields(lines.Text())
			if len(words) != 3 {
				continue // the process was killed while it wrote
			}
			due, err := strconv.ParseInt(words[1], 10, 64)
			require.NoError(t, err)
			at, err := strconv.ParseInt(words[2], 10, 64)
			require.NoError(t, err)
			all[words[0]] = append(all[words[0]], effect{time.Unix(0, due), time.Unix(0, at)})
		}
		require.NoError(t, f.Close())
	}
	return all
}

// sizeOf returns the number that an environment variable has, or else another one.
func sizeOf(t *testing.T, variable string, otherwise int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}

// GOLDA_JOBS and GOLDA_KILLS make it as large as you like: 10000 and 50 take a minute.
func TestJobsAreDoneOnceThoughProcessesAndTheServerAreKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes ten seconds")
	}
	t.Parallel()
	total, kills := sizeOf(t, "GOLDA_JOBS", 200), sizeOf(t, "GOLDA_KILLS", 4)
	e := &external{dir: t.TempDir(), address: addresses(t, 1)[0]} // of the version in go.mod
	e.start(t)
	t.Cleanup(func() { e.end(t) })
	e.await(t)
	conn := connect(t, "nats://"+e.address)
	queue := inlet(t, conn, "jobs", killedJobs)
	dir := t.TempDir()
	var all [3]*process
	for k := range all {
		all[k] = job{Name: "p" + strconv.Itoa(k), Dir: dir, URL: "nats://" + e.address, Queue: true}.spawn(t)
	}

	// a process is killed, and another one takes its place, while jobs are published; the server is killed once in ten times
	random := rand.New(rand.NewPCG(7, 7))
	added, duplicates, servers := map[string]time.Time{}, 0, 0
	for k := range total {
		if kills > 0 && k%(total/kills) == total/kills/2 {
			if k/(total/kills)%10 == 3 {
				e.kill(t)
				e.start(t)
				servers++
			}
			victim := random.IntN(3)
			all[victim].kill(t)
			all[victim] = all[victim].spawn(t)
			await(t, "the next process feeds", func() bool { return all[victim].report().Feed != "" })
		}
		cmd, spec := strconv.Itoa(k), jobs.Spec{ID: strconv.Itoa(k)}
		due := time.Time{}
		switch k % 4 {
		case 0:
			spec.In = time.Duration(1+random.IntN(5000)) * time.Millisecond
			due = time.Now().Add(spec.In)
		case 1:
			spec.At = time.Now().Add(time.Duration(random.IntN(3000)) * time.Millisecond)
			due = spec.At
		case 2:
			spec = jobs.Spec{Key: strconv.Itoa(k % 16)}
		}
		var is bool
		untilDone(t, func() (err error) {
			short, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			is, err = queue.PublishJob(short, spec, cmd)
			return err
		})
		if is || spec.Key == "" { // a first try that was not answered may have added it
			added[cmd] = due
		} else {
			duplicates++
		}
	}
	var s nats.Status
	await(t, "nothing is left", func() bool {
		short, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		var err error
		s, err = queue.Status(short)
		return err == nil && s.Pending == 0 && s.Delayed == 0
	})
	removed, err := queue.Unschedule(t.Context(), ticking.Name)
	require.NoError(t, err)
	require.True(t, removed)
	await(t, "the last periodic command is done", func() bool {
		s, err = queue.Status(t.Context())
		return err == nil && s.Pending == 0 && s.Delayed == 0
	})
	for _, p := range all {
		p.stop(t)
	}

	done := effectsOf(t, dir)
	canceled, moves := changesOf(t, dir)
	twice, times, undone := 0, 0, 0
	for cmd, due := range added {
		if len(done[cmd]) == 0 {
			require.True(t, canceled[cmd], "the job %s is lost", cmd)
			undone++
			continue
		}
		twice += len(done[cmd]) - 1
		for _, e := range done[cmd] {
			require.False(t, e.at.Before(e.due), "the job %s is early", cmd)
			require.False(t, e.at.Before(due.Add(-time.Millisecond)), "the job %s is early", cmd) // In counts from when the server was asked
		}
	}
	for cmd, effects := range done {
		if strings.HasPrefix(cmd, "tick") {
			times++
			twice += len(effects) - 1
			require.False(t, effects[0].at.Before(effects[0].due), "a periodic command is early")
		}
	}
	for l, err := range queue.Letters(t.Context()) {
		require.NoError(t, err)
		cmd, err := strconv.Unquote(string(l.Data))
		require.NoError(t, err)
		require.Equal(t, reason.Cancelled, l.Reason)
		require.True(t, canceled[cmd])
	}
	stored := int(s.Published) - len(done)
	t.Logf("%d jobs, %d duplicates by key, %d times of the schedule, %d kills of processes and %d of the server, %d calls of SetLane; canceled and undone: %d; handled twice: %d",
		len(added), duplicates, times, kills, servers, moves, undone, twice)
	require.NotZero(t, moves)
	require.GreaterOrEqual(t, stored, 0)
	require.LessOrEqual(t, stored, 64*servers+moves+undone, "each job, each time of the schedule, and each copy in another lane is one message; a server that is killed forgets the IDs of messages that are done")
	require.LessOrEqual(t, twice, (kills+servers)*3*killedJobs.MaxInFlight+moves)
}

// untilDone calls f until it returns no error.
func untilDone(t *testing.T, f func() error) {
	t.Helper()
	var err error
	for begin := time.Now(); time.Since(begin) < 2*time.Minute; time.Sleep(10 * time.Millisecond) {
		if err = f(); err == nil {
			return
		}
	}
	require.NoError(t, err)
}

func TestAJobQueueNeedsAServerThatHasSchedules(t *testing.T) {
	t.Parallel()
	e := startExternal(t) // 2.9.10
	_, err := nats.NewInlet(t.Context(), connect(t, "nats://"+e.address), "jobs", ofJobs())
	require.ErrorContains(t, err, `nats: inlet "jobs": Options.Jobs needs a server of the version 2.12.0 at least, and this one has the version 2.9.`)
}
