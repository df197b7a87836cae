package pipeline_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/letters"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/overflow"
	"github.com/golda-dev/golda/stage/reason"
)

// mended crashes on the command that its poison is, until it has none.
type mended struct{ poison atomic.Int64 }

func (m *mended) HandleCommand(_ context.Context, cmd int) behaviour.Outcome {
	if int64(cmd) == m.poison.Load() {
		panic("poison")
	}
	return behaviour.OK(cmd)
}

func (m *mended) Version() string { return "v7" }

func only(t *testing.T, l *letters.Store) letters.Letter {
	t.Helper()
	list := l.List(letters.Filter{})
	require.Len(t, list, 1)
	return list[0]
}

func TestAPoisonCommandIsQuarantinedAndMayBeRetriedWhenTheHandlerIsFixed(t *testing.T) {
	b := &mended{}
	b.poison.Store(5)
	s := stage.New("s", b, stage.Workers(2, 2), stage.Retry(stage.RetryPolicy{Attempts: 3}))
	p := run(t, s)
	require.NoError(t, s.Submit(t.Context(), 5))
	q := p.Quarantine()
	eventually(t, "a letter", func() bool { return q.Len() == 1 })
	letter := only(t, q)
	require.Equal(t, "test", letter.Pipeline)
	require.Equal(t, "s", letter.Stage)
	require.Equal(t, 5, letter.Command)
	require.Equal(t, reason.Crash, letter.Reason)
	require.Equal(t, 3, letter.Attempts)
	require.Equal(t, "v7", letter.Version)
	require.Regexp(t, "^[0-9a-f]{12}$", letter.Fingerprint)
	require.Contains(t, string(letter.Stack), "mended")
	require.Equal(t, letter.At, letter.First)
	require.Zero(t, p.DeadLetters().Len())

	require.NoError(t, q.Retry(t.Context(), letter.ID))
	eventually(t, "a letter of the same crash", func() bool { return q.Len() == 1 && q.List(letters.Filter{})[0].ID == 2 })
	second := only(t, q)
	require.Equal(t, letter.Fingerprint, second.Fingerprint)
	require.EqualValues(t, 2, second.Seen)

	b.poison.Store(0)
	require.NoError(t, q.Retry(t.Context(), second.ID))
	require.Zero(t, q.Len())
	require.NoError(t, p.Drain(soon(t)))
	snap := p.Snapshot()
	require.EqualValues(t, 3, snap.Accepted, "a retry is a new command")
	require.EqualValues(t, 2, snap.DeadLettered)
	require.EqualValues(t, 1, snap.Replied)
	require.EqualValues(t, 2, q.Groups()[0].Seen)
}

func TestShedCommandsAndThoseThatAStopLeavesAreDeadLetters(t *testing.T) {
	gate := make(chan struct{})
	s := stage.New("s", fn(func(ctx context.Context, cmd int) behaviour.Outcome {
		select {
		case <-gate:
		case <-ctx.Done():
		}
		return behaviour.OK(cmd)
	}), stage.Workers(1, 1), stage.Capacity(2), stage.Overflow(overflow.DropOldest))
	p := start(t, s)
	require.NoError(t, s.Submit(t.Context(), 0))
	eventually(t, "the first in hand", func() bool { return p.Snapshot().Stages[0].Queue.InHand == 1 })
	for cmd := 1; cmd <= 5; cmd++ {
		require.NoError(t, s.Submit(t.Context(), cmd))
	}
	dead := p.DeadLetters()
	require.Equal(t, 3, dead.Len(), "a submitter that shed a command finds its letter")
	hard, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, p.Stop(hard))
	reasons := map[reason.Reason]int{}
	for _, letter := range dead.List(letters.Filter{}) {
		reasons[letter.Reason]++
		require.Empty(t, letter.Fingerprint)
		require.ErrorIs(t, dead.Retry(t.Context(), letter.ID), stage.ErrClosed, "nothing is retried after the stop")
	}
	require.Equal(t, map[reason.Reason]int{reason.Oldest: 3, reason.Stopped: 2}, reasons)
	require.Equal(t, 5, dead.Len(), "a refused letter stays")
	require.Zero(t, p.Quarantine().Len())
	var out bytes.Buffer
	require.NoError(t, dead.Export(&out), "letters outlive the pipeline")
	require.Equal(t, 5, strings.Count(out.String(), "\n"))
	atRest(t, p)
}

func TestARetryIsCheckedLikeAnyCommand(t *testing.T) {
	numbers := stage.New("numbers", fn(poison), stage.Overflow(overflow.Reject))
	all := stage.Func("all", func(_ context.Context, cmd any) behaviour.Outcome {
		if cmd == nil {
			panic("nil")
		}
		return behaviour.OK(cmd)
	})
	gone := stage.Func("gone", func(context.Context, int) behaviour.Outcome { panic("gone") })
	p := run(t, numbers, all, gone)
	require.NoError(t, numbers.Submit(t.Context(), -1))
	require.NoError(t, all.Submit(t.Context(), nil))
	require.NoError(t, gone.Submit(t.Context(), 1))
	q := p.Quarantine()
	eventually(t, "three letters", func() bool { return q.Len() == 3 })
	require.NoError(t, p.Remove(soon(t), gone))
	id := func(stage string) uint64 { return q.List(letters.Filter{Stage: stage})[0].ID }

	for name, row := range map[string]struct {
		cmd  any
		want string
	}{
		"another type": {"text", `stage "numbers": takes int, was sent string`},
		"a like type":  {int64(1), `stage "numbers": takes int, was sent int64`},
		"nil":          {nil, `stage "numbers": takes int, was sent <nil>`},
	} {
		err := q.RetryAs(t.Context(), id("numbers"), row.cmd)
		var wrong *stage.TypeError
		require.ErrorAs(t, err, &wrong, name)
		require.ErrorContains(t, err, row.want, name)
	}
	require.ErrorIs(t, q.Retry(t.Context(), id("gone")), pipeline.ErrNotPart)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, q.Retry(ended, id("numbers")), context.Canceled)
	require.Equal(t, 3, q.Len(), "a refused letter stays")

	require.NoError(t, q.RetryAs(t.Context(), id("numbers"), 1))
	require.NoError(t, q.Retry(t.Context(), id("all")), "nil is a command of a stage that takes all")
	eventually(t, "the nil to come back", func() bool { return q.Len() == 2 && q.List(letters.Filter{})[0].ID == 4 })
	require.NoError(t, p.Drain(soon(t)))
	require.ErrorIs(t, q.Retry(t.Context(), id("all")), stage.ErrClosed)
	require.EqualValues(t, 3, p.Snapshot().Stages[0].Reasons.Rejected[reason.Type])
}

func TestAMessageThatNoStageTookIsADeadLetterAndMayBeEdited(t *testing.T) {
	s := stage.New("s", fn(echo[int]))
	p := run(t, s)
	system().Root.Send(s.PID(), "7")
	dead := p.DeadLetters()
	eventually(t, "a letter", func() bool { return dead.Len() == 1 })
	letter := only(t, dead)
	require.Equal(t, reason.Type, letter.Reason)
	var wrong *stage.TypeError
	require.ErrorAs(t, dead.Retry(t.Context(), letter.ID), &wrong)
	require.NoError(t, dead.RetryAs(t.Context(), letter.ID, 7))
	require.Zero(t, dead.Len())
}

func TestALetterIsInTheStoreWhenTheSubscriberIsCalled(t *testing.T) {
	var p *pipeline.Pipeline
	found := make(chan int, 1)
	s := stage.New("s", fn(poison))
	p = run(t, s, pipeline.DeadLetters(func(stage.DeadLetter) { found <- p.Quarantine().Len() }))
	require.NoError(t, s.Submit(t.Context(), -1))
	require.Equal(t, 1, <-found)
}

func TestKeepLettersSetsTheBound(t *testing.T) {
	for most, bound := range map[int]int{-1: 0, 1: 1, 3: 3, 0: 5} {
		s := stage.New("s", fn(poison), stage.Restart(stage.RestartPolicy{Limit: 1000}))
		p := start(t, s, pipeline.KeepLetters(letters.Options{Most: most}))
		for i := range 5 {
			require.NoError(t, s.Submit(t.Context(), -1-i))
		}
		require.NoError(t, p.Stop(soon(t)))
		require.Equal(t, bound, p.Quarantine().Len())
		require.EqualValues(t, 5-bound, p.Quarantine().Dropped())
		require.EqualValues(t, 5, p.Quarantine().Groups()[0].Seen)
	}
	_, err := pipeline.New("test", stage.New("s", fn(poison)), pipeline.KeepLetters(letters.Options{Most: -2}))
	require.EqualError(t, err, `pipeline "test": KeepLetters: Most: -2 must be -1, for none, or more`)
}

func TestEvictedLettersAreLoggedAlsoAtTheEnd(t *testing.T) {
	var mu sync.Mutex
	var out bytes.Buffer
	s := stage.New("s", fn(poison), stage.Restart(stage.RestartPolicy{Limit: 1000}))
	p := start(t, s, pipeline.KeepLetters(letters.Options{Most: 1}), pipeline.Logger(slog.New(slog.NewJSONHandler(guarded{&mu, &out}, nil))))
	for i := range 5 {
		require.NoError(t, s.Submit(t.Context(), -1-i))
	}
	require.NoError(t, p.Stop(soon(t)))
	told := 0
	for line := range strings.Lines(out.String()) {
		var l struct {
			Msg     string `json:"msg"`
			Store   string `json:"store"`
			Dropped int    `json:"dropped"`
		}
		require.NoError(t, json.Unmarshal([]byte(line), &l))
		if l.Msg == "letters dropped: the store is full" {
			require.Equal(t, "quarantine", l.Store)
			told += l.Dropped
		}
	}
	require.Equal(t, 4, told)
}

func TestEvictedLettersThatAFunctionGotAreNotLogged(t *testing.T) {
	for kind, subscribe := range map[string]func(func(stage.DeadLetter)) pipeline.Part{
		"quarantine": pipeline.DeadLetters, "failures": pipeline.Failures,
	} {
		var mu sync.Mutex
		var out bytes.Buffer
		var got atomic.Int64
		s := stage.New("s", fn(poison), stage.Restart(stage.RestartPolicy{Limit: 1000}))
		fails := stage.Sink("fails", func(context.Context, int) error { return errNo })
		p := start(t, s, fails, pipeline.KeepLetters(letters.Options{Most: 1}), pipeline.Logger(slog.New(slog.NewJSONHandler(guarded{&mu, &out}, nil))),
			subscribe(func(stage.DeadLetter) { got.Add(1) }))
		for i := range 5 {
			require.NoError(t, s.Submit(t.Context(), -1-i))
			require.NoError(t, fails.Submit(t.Context(), i))
		}
		require.NoError(t, p.Stop(soon(t)))
		require.EqualValues(t, 5, got.Load())
		var logged []string
		for line := range strings.Lines(out.String()) {
			var l struct{ Msg, Store string }
			require.NoError(t, json.Unmarshal([]byte(line), &l)) //nolint:musttag // the names of slog
			if l.Msg == "letters dropped: the store is full" {
				logged = append(logged, l.Store)
			}
		}
		require.NotContains(t, logged, kind)
		require.NotEmpty(t, logged, "of the other store")
	}
}

type guarded struct {
	mu  *sync.Mutex
	out *bytes.Buffer
}

func (g guarded) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.out.Write(p)
}

// Letters are retried as fast as they arrive.
func TestTheLawHoldsWhileAllLettersAreRetriedRepeatedly(t *testing.T) {
	var tries atomic.Int64
	s := stage.New("s", fn(func(_ context.Context, cmd int) behaviour.Outcome {
		if tries.Add(1)%3 == 0 {
			panic("now and then")
		}
		return behaviour.OK(cmd)
	}), stage.Workers(4, 4), stage.Restart(stage.RestartPolicy{Limit: 1 << 20}))
	p := run(t, s)
	const commands = 500
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range commands {
			require.NoError(t, s.Submit(t.Context(), i))
		}
	})
	for range 3 {
		wg.Go(func() {
			for p.Snapshot().Replied < commands {
				_, err := p.Quarantine().RetryAll(t.Context(), letters.Filter{})
				require.NoError(t, err)
				require.True(t, p.Snapshot().Balanced())
			}
		})
	}
	wg.Wait()
	require.Zero(t, p.Quarantine().Len())
	snap := p.Snapshot()
	require.Equal(t, snap.Accepted, commands+snap.DeadLettered)
}

// BenchmarkShedding sheds commands as fast as one submitter can submit them.
func BenchmarkShedding(b *testing.B) {
	for _, keep := range []int{-1, 1024} {
		b.Run(fmt.Sprintf("keep=%d", keep), func(b *testing.B) {
			gate := make(chan struct{})
			s := stage.Func("s", func(context.Context, *int) behaviour.Outcome { <-gate; return behaviour.OK(nil) },
				stage.Workers(1, 1), stage.Capacity(1), stage.Overflow(overflow.DropNewest))
			p, err := pipeline.New("shed", s, quiet, pipeline.System(system()), pipeline.Control(policy.Fixed{}), pipeline.KeepLetters(letters.Options{Most: keep}))
			if err != nil {
				b.Fatal(err)
			}
			if err := p.Start(b.Context()); err != nil {
				b.Fatal(err)
			}
			cmd := new(int)
			b.ReportAllocs()
			for b.Loop() {
				_ = s.Submit(b.Context(), cmd)
			}
			b.StopTimer()
			close(gate)
			_ = p.Stop(context.Background())
		})
	}
}

func TestALetterIsInTheStoreWhenTheCallerHasTheError(t *testing.T) {
	s := stage.Func("s", func(_ context.Context, n int) behaviour.Outcome {
		if n > 0 {
			panic("no")
		}
		return behaviour.OK(n)
	})
	p := run(t, s)
	for i := range 300 {
		_, err := stage.Call[int](soon(t), s, 1)
		require.True(t, stage.Crashed(err), err)
		require.Equal(t, i+1, p.Quarantine().Len(), "its letter is there")
		_, err = stage.Call[int](soon(t), s, 0)
		require.NoError(t, err, "so that there is no streak of crashes")
	}
}

// This is what quarantine and upgrades are for.
func TestQuarantinedCommandsAreAnsweredByAFixedVersion(t *testing.T) {
	r := newRegistry()
	s := stage.Each("s", r.factory("v1", func(ctx context.Context, b *being, n int) behaviour.Outcome {
		if n%10 == 0 {
			panic("a ten")
		}
		return answer(ctx, b, n)
	}), stage.Retry(stage.RetryPolicy{Attempts: 2}))
	p := run(t, s)
	cmds := make([]int, 100)
	for n := range cmds {
		cmds[n] = n
	}
	_, err := s.SubmitAll(t.Context(), cmds...)
	require.NoError(t, err)
	q := p.Quarantine()
	eventually(t, "all tens to be in quarantine", func() bool { return q.Len() == 10 })
	require.Equal(t, "v1", q.List(letters.Filter{})[0].Version)

	up, err := s.Upgrade(t.Context(), r.factory("v2", nil))
	require.NoError(t, err)
	n, err := q.RetryAll(t.Context(), letters.Filter{})
	require.NoError(t, err)
	require.Equal(t, 10, n)
	require.NoError(t, p.Drain(soon(t)))
	require.Zero(t, q.Len())
	await(t, up)
	snapshot := p.Snapshot()
	require.True(t, snapshot.Balanced(), snapshot.Law())
	require.EqualValues(t, 100, snapshot.Replied)
	require.EqualValues(t, 110, snapshot.Accepted)
	require.NoError(t, p.Stop(soon(t)))
	r.quit(t)
}

// Letters that were not delivered are logged; of a flood, ten lines a second.
func TestLettersWhoseSubscriberCrashesAreLogged(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		log := &scribe{lines: map[string]int{}}
		s := stage.New("s", fn(poison), stage.Restart(stage.RestartPolicy{Limit: 1000}))
		p := bubble(t, s, pipeline.Logger(slog.New(log)), pipeline.KeepLetters(letters.Options{Most: -1}),
			pipeline.DeadLetters(func(stage.DeadLetter) { panic("subscriber") }))
		for range 100 {
			_, err := stage.Call[int](t.Context(), s, -1)
			require.True(t, stage.Crashed(err))
			_, err = stage.Call[int](t.Context(), s, 1)
			require.NoError(t, err)
		}
		synctest.Wait()
		for _, line := range []string{"dead letter", "dead-letter subscriber crashed"} {
			lines, _ := log.told(line)
			require.Equal(t, 10, lines, line)
		}
		require.NoError(t, p.Stop(t.Context()))
		_, left := log.told("")
		require.EqualValues(t, 3*90, left, "lines for these two, and for the crashes")
	})
}
