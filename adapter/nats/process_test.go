package nats_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// underFaults are the options of the inlet of all processes: a backlog in the server, so that there is work while the publisher is away.
var underFaults = nats.Options[int]{
	MaxMessages: 500, MaxInFlight: 8, AckWait: 2 * time.Second,
	Retry: stage.RetryPolicy{
		Attempts: 1000, Backoff: 50 * time.Millisecond, Max: time.Second, If: func(err error) bool { return !errors.Is(err, errRotten) },
	},
}

// job is what a child process does: the test binary, started with jobEnv.
type job struct {
	Name    string // of the process
	Dir     string // of all processes
	URL     string // of the server, or of several
	Publish bool   // until it is told that it is enough
	Fair    bool   // keys share the inlet
	Load    *load  // with it, it only publishes that
	Queue   bool   // it handles the jobs of a job queue instead
}

// tenantOf says which tenant a number is from. The first has half of them.
func tenantOf(k int) (string, int) { return strconv.Itoa(k % 20 / 10 * (k % 10)), 1 }

const jobEnv = "GOLDA_TEST_JOB"

// report is what a child process writes, again and again, as one line.
type report struct {
	Counts nats.Counts
	Next   int    // the number that is published next: all before are
	Away   uint64 // how often publishing failed with ErrAway
	Feed   string // the state of the feed
	Done   bool   // it has drained
}

var errRotten = errors.New("rotten")

// rotten reports whether the command of a number fails for good.
func rotten(k int) bool { return k%25 == 0 }

// child is the main function of a child process.
func child(text string) (status int) {
	var j job
	err := json.Unmarshal([]byte(text), &j)
	switch {
	case err != nil:
	case j.Queue:
		err = j.handleJobs(context.Background())
	case j.Load != nil:
		err = j.weigh(context.Background())
	default:
		err = j.run(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, j.Name, err)
		return 1
	}
	return 0
}

// run feeds a pipeline from the inlet until the standard input ends, and publishes until it has a line, if it is to publish.
func (j job) run(ctx context.Context) (err error) {
	conn, err := nats.Connect(ctx, j.URL)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	o := underFaults
	if j.Fair {
		o.Fair, o.Partitions = tenantOf, 4
	}
	numbers, err := nats.NewInlet(ctx, conn, "numbers", o)
	if err != nil {
		return err
	}
	ledger, err := conn.Outcomes(ctx, "ledger", 0)
	if err != nil {
		return err
	}
	effects, err := os.OpenFile(filepath.Join(j.Dir, j.Name+".effects"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, effects.Close()) }()
	work := stage.Sink("work", func(ctx context.Context, k int) error {
		if rotten(k) {
			return errRotten
		}
		time.Sleep(150 * time.Millisecond) // slower than the publisher
		_, err := nats.Once(ctx, ledger, strconv.Itoa(k), func(context.Context) (string, error) { return j.Name, nil })
		if err == nil {
			_, err = effects.WriteString(strconv.Itoa(k) + "\n")
		}
		return err
	}, stage.Workers(4, 4))
	p, err := pipeline.New(j.Name, work, pipeline.Feed("numbers", work, numbers.Feed), quiet)
	if err != nil {
		return err
	}
	if err := p.Start(ctx); err != nil {
		return err
	}
	var next atomic.Int64
	var away atomic.Uint64
	look := func(done bool) {
		line, err := json.Marshal(report{numbers.Counts(), int(next.Load()), away.Load(), p.Snapshot().Feeds[0].State, done})
		if err != nil {
			panic(err)
		}
		_, _ = os.Stdout.Write(append(line, '\n')) // its parent has ended, if it does not read
	}
	orders := make(chan struct{})
	go func() {
		defer close(orders)
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			orders <- struct{}{}
		}
	}()
	var publishing sync.WaitGroup
	enough, stop := context.WithCancel(ctx)
	defer stop()
	if j.Publish {
		publishing.Go(func() { j.publish(enough, numbers, &next, &away) })
	}
	for ticks := time.NewTicker(20 * time.Millisecond); ; {
		select {
		case <-ticks.C:
			look(false)
			continue
		case _, open := <-orders:
			stop()
			publishing.Wait()
			if open {
				continue
			}
		}
		break
	}
	err = p.Stop(ctx)
	for numbers.Counts().InFlight > 0 {
		time.Sleep(time.Millisecond)
	}
	look(true)
	return err
}

// publish publishes numbers until it is enough. One that was refused is published again, with the same ID.
func (job) publish(enough context.Context, numbers *nats.Inlet[int], next *atomic.Int64, away *atomic.Uint64) {
	for k := 0; enough.Err() == nil; k++ {
		for {
			short, cancel := context.WithTimeout(context.WithoutCancel(enough), 2*time.Second)
			err := numbers.Publish(short, strconv.Itoa(k), k)
			cancel()
			if err == nil {
				break
			}
			if errors.Is(err, nats.ErrAway) {
				away.Add(1)
			}
			time.Sleep(10 * time.Millisecond)
		}
		next.Store(int64(k + 1))
		time.Sleep(2 * time.Millisecond)
	}
}

// process is a child process, as its parent has it.
type process struct {
	job

	cmd    *exec.Cmd
	in     io.WriteCloser
	stderr bytes.Buffer
	ended  chan struct{} // closed when its output has ended

	mu   sync.Mutex // guards last
	last report
}

// spawn starts a child process. It is killed at the end of the test, if it runs.
func (j job) spawn(t *testing.T) *process {
	t.Helper()
	text, err := json.Marshal(j)
	require.NoError(t, err)
	self, err := os.Executable()
	require.NoError(t, err)
	p := &process{job: j, cmd: exec.CommandContext(context.WithoutCancel(t.Context()), self), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), jobEnv+"="+string(text))
	p.cmd.Stderr = &p.stderr
	p.in, err = p.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	t.Cleanup(func() {
		if t.Failed() {
			p.dump()
		}
		_ = p.cmd.Process.Kill() // it has ended, if that is not possible
		<-p.ended
		_ = p.cmd.Wait()
		if t.Failed() {
			t.Logf("process %s: last report %+v; standard error: %s", j.Name, p.report(), p.stderr.String())
		}
	})
	go p.read(out)
	return p
}

// dump has the process write its goroutines to its standard error, and end. One that stands still is killed after that.
func (p *process) dump() {
	_ = p.cmd.Process.Signal(syscall.SIGQUIT) // it has ended, if that is not possible
	select {
	case <-p.ended:
	case <-time.After(10 * time.Second):
	}
}

// read keeps the last report.
func (p *process) read(out io.Reader) {
	defer close(p.ended)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var r report
		if json.Unmarshal(lines.Bytes(), &r) != nil {
			continue // the line was cut off
		}
		p.mu.Lock()
		p.last = r
		p.mu.Unlock()
	}
}

func (p *process) report() report {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

// kill kills the process, as kill -9 does.
func (p *process) kill(t *testing.T) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Kill())
	<-p.ended
}

// enough has the process publish no more.
func (p *process) enough(t *testing.T) {
	t.Helper()
	_, err := io.WriteString(p.in, "enough\n")
	require.NoError(t, err)
}

// stop has the process drain, and waits until it has ended.
func (p *process) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, p.in.Close())
	<-p.ended
	require.NoError(t, p.cmd.Wait(), p.stderr.String())
	require.True(t, p.report().Done)
}

// lines returns how often each number is in the file of a process's effects.
func (j job) lines(t *testing.T) map[int]int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(j.Dir, j.Name+".effects"))
	require.NoError(t, err)
	lines := map[int]int{}
	for line := range strings.Lines(string(text)) {
		if number, complete := strings.CutSuffix(line, "\n"); complete {
			k, err := strconv.Atoi(number)
			require.NoError(t, err)
			lines[k]++
		}
	}
	return lines
}

// await waits until a condition holds. Elections take ten seconds, and more on a machine with other work.
func await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	begin := time.Now()
	require.Eventually(t, holds, 5*time.Minute, 20*time.Millisecond, what)
	t.Logf("after %4.1f s: %s", time.Since(begin).Seconds(), what)
}

// acknowledged returns how many messages processes have acknowledged.
func acknowledged(all ...*process) (n uint64) {
	for _, p := range all {
		n += p.report().Counts.Acknowledged
	}
	return n
}

// goOn waits until processes have acknowledged so many more messages.
func goOn(t *testing.T, what string, all ...*process) {
	t.Helper()
	before := acknowledged(all...)
	await(t, what, func() bool { return acknowledged(all...) >= before+50 })
}

// books has the law over all processes: those that run, and those that were killed.
type books struct {
	alive, killed []*process
}

// stepDown has the servers of a cluster choose another leader for the consumer of the numbers. After several servers were killed, one that
// leads may count no message as pending although the stream has some. An operator runs nats consumer cluster step-down then.
func stepDown(t *testing.T, conn *nats.Conn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	answer, err := conn.JetStream().Conn().RequestWithContext(ctx, "$JS.API.CONSUMER.LEADER.STEPDOWN.GOLDA_numbers.golda", nil)
	if err != nil {
		t.Log("no other leader was chosen: ", err)
		return
	}
	t.Logf("the consumer stood still for a minute, and gets another leader: %s", answer.Data)
}

// balance stops publishing, waits until nothing is left, and compares what the processes and the server have counted.
func (b books) balance(t *testing.T, conn *nats.Conn, publisher *process) {
	t.Helper()
	publisher.enough(t)
	numbers := inlet(t, conn, "numbers", underFaults)
	var s nats.Status
	since := time.Now()
	await(t, "nothing is left", func() (rest bool) {
		var err error
		s, err = numbers.Status(t.Context())
		rest = err == nil && s.Pending == 0
		for _, p := range b.alive {
			rest = rest && p.report().Counts.InFlight == 0
		}
		if !rest && time.Since(since) > time.Minute {
			stepDown(t, conn)
			since = time.Now()
		}
		return rest
	})
	n := publisher.report().Next
	made := publisher.report().Counts
	require.EqualValues(t, n, made.Published+made.Duplicates, "each number was stored, or was there already")
	require.EqualValues(t, n, s.Published, "each number is there once")

	var dead map[int]bool
	await(t, "the dead letters can be read", func() bool { return !errors.Is(deadNumbers(t, numbers, &dead), nats.ErrAway) })
	ledger, err := conn.Outcomes(t.Context(), "ledger", 0)
	require.NoError(t, err)
	outcomes := 0
	for k := range n {
		kept := has(t, ledger, k)
		require.Equal(t, !rotten(k), kept, "the number %d is lost", k)
		require.Equal(t, rotten(k), dead[k], k)
		if kept {
			outcomes++
		}
	}
	var last uint64
	await(t, "the outcomes can be counted", func() bool {
		stream, err := conn.JetStream().Stream(t.Context(), "KV_ledger")
		if err == nil {
			last = stream.CachedInfo().State.LastSeq
		}
		return err == nil
	})
	require.EqualValues(t, outcomes, last, "an outcome was kept twice")
	require.Equal(t, n, outcomes+int(s.Buried)+int(s.Pending), "published = acknowledged + dead-lettered + pending")
	b.sum(t, n)
}

// deadNumbers sets which numbers have dead letters. The error is ErrAway or nil.
func deadNumbers(t *testing.T, numbers *nats.Inlet[int], dead *map[int]bool) error {
	t.Helper()
	*dead = map[int]bool{}
	for l, err := range numbers.Letters(t.Context()) {
		if errors.Is(err, nats.ErrAway) {
			return err
		}
		require.NoError(t, err)
		k, err := strconv.Atoi(l.ID)
		require.NoError(t, err)
		require.False(t, (*dead)[k], "two letters of %d", k)
		(*dead)[k] = true
	}
	return nil
}

// has reports whether a number has an outcome. A cluster may be electing a leader of the outcomes.
func has(t *testing.T, ledger nats.Outcomes, k int) (kept bool) {
	t.Helper()
	_, kept, err := ledger.Get(t.Context(), strconv.Itoa(k))
	if errors.Is(err, nats.ErrAway) {
		await(t, "the outcomes can be read", func() bool {
			_, kept, err = ledger.Get(t.Context(), strconv.Itoa(k))
			return !errors.Is(err, nats.ErrAway)
		})
	}
	require.NoError(t, err)
	return kept
}

// sum compares the counts of all processes with n messages. Those of a process that was killed are a moment old: it has left its lines.
func (b books) sum(t *testing.T, n int) {
	t.Helper()
	lines, effects, unknown := map[int]int{}, 0, 0
	var sum nats.Counts
	for k, p := range append(b.alive, b.killed...) {
		c := p.report().Counts
		lawful(t, c)
		sum.Acknowledged += c.Acknowledged
		sum.DeadLettered += c.DeadLettered
		sum.Redelivered += c.Redelivered
		if k >= len(b.alive) {
			unknown += int(c.InFlight) + 2*underFaults.MaxInFlight // it may have ended these, and as many more as may be in flight
		}
	}
	for _, p := range b.alive { // a process that was killed and its successor share a file
		for k, times := range p.lines(t) {
			lines[k] += times
			effects += times
		}
	}
	again := effects - len(lines)
	t.Logf("%d messages, %d dead letters, %d handled again; %d redeliveries; %d acknowledgements", n, sum.DeadLettered, again, sum.Redelivered, sum.Acknowledged)
	assert.GreaterOrEqual(t, int(sum.Acknowledged+sum.DeadLettered)+unknown, n, "published = acknowledged + dead-lettered + pending")
	assert.LessOrEqual(t, int(sum.Acknowledged+sum.DeadLettered), n+int(sum.Redelivered)+unknown,
		"each further acknowledgement is that of a redelivery, or of a delivery that a server has forgotten which was stopped")
	assert.LessOrEqual(t, again, int(sum.Redelivered)+unknown, "each further effect is that of a redelivery")
}
