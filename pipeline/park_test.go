package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/internal/feed"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/letters"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/overflow"
)

// booking is an entry of a ledger: the n-th of its account.
type booking struct {
	Account string
	N       int
}

// parkLedger records the bookings that were applied, account by account.
type parkLedger struct {
	mu      sync.Mutex
	applied map[string][]int
	fails   map[booking]error // nil: it crashes
}

func newParkLedger() *parkLedger {
	return &parkLedger{applied: map[string][]int{}, fails: map[booking]error{}}
}

// fail has a booking fail until repair; a nil error is a crash.
func (l *parkLedger) fail(b booking, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fails[b] = err
}

func (l *parkLedger) repair() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.fails)
}

func (l *parkLedger) of(account string) []int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]int(nil), l.applied[account]...)
}

func (l *parkLedger) apply(b booking) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err, fails := l.fails[b]
	switch {
	case !fails:
		l.applied[b.Account] = append(l.applied[b.Account], b.N)
		return nil
	case err == nil:
		panic("a bad booking")
	default:
		return err
	}
}

// parkAccount is the instance of an account.
type parkAccount struct{ of *parkLedger }

func (a parkAccount) HandleCommand(_ context.Context, b booking) behaviour.Outcome {
	if err := a.of.apply(b); err != nil {
		return behaviour.Error(err)
	}
	return behaviour.OK(nil)
}

func parkAccountOf(b booking) string { return b.Account }

func (l *parkLedger) stage(opts ...stage.Option) *stage.Stage[booking] {
	return stage.Keyed("book", parkAccountOf, func(string) parkAccount { return parkAccount{l} }, append([]stage.Option{stage.ParkOnFailure()}, opts...)...)
}

func book(t *testing.T, s *stage.Stage[booking], account string, from, to int) {
	t.Helper()
	for n := from; n <= to; n++ {
		require.NoError(t, s.Submit(soon(t), booking{account, n}))
	}
}

func bookings(n int) (all []int) {
	for i := 1; i <= n; i++ {
		all = append(all, i)
	}
	return all
}

func TestTheKeyOfACommandThatHasFailedWaitsForItsLetter(t *testing.T) {
	for how, err := range map[string]error{"error": errNo, "crash": nil} {
		t.Run(how, func(t *testing.T) {
			l := newParkLedger()
			l.fail(booking{"a", 3}, err)
			s := l.stage()
			p := run(t, s)
			book(t, s, "a", 1, 10)
			book(t, s, "b", 1, 10)
			store := p.Failures()
			if err == nil {
				store = p.Quarantine()
			}
			eventually(t, "the letter is there", func() bool { return store.Len() == 1 })
			eventually(t, "the other key goes on", func() bool { return len(l.of("b")) == 10 })
			require.Equal(t, []int{1, 2}, l.of("a"))
			eventually(t, "the others wait", func() bool {
				q := s.Snapshot().Queue
				return q.ParkedKeys == 1 && q.Held == 7 && q.Queued == 7
			})
			parked := store.List(letters.Filter{Parked: true})
			require.Len(t, parked, 1)
			require.True(t, parked[0].Parked)
			require.Equal(t, 7, parked[0].Waiting)
			require.Equal(t, booking{"a", 3}, parked[0].Command)
			require.Equal(t, parked[0], store.Groups()[0].Example)

			require.NoError(t, store.Retry(soon(t), parked[0].ID)) // in vain
			eventually(t, "there is a letter again", func() bool {
				again := store.List(letters.Filter{Parked: true})
				return len(again) == 1 && again[0].ID != parked[0].ID
			})
			require.Equal(t, []int{1, 2}, l.of("a"))
			l.repair()
			n, err := store.RetryAll(soon(t), letters.Filter{})
			require.NoError(t, err)
			require.Equal(t, 1, n)
			eventually(t, "the key goes on", func() bool { return len(l.of("a")) == 10 })
			require.Equal(t, bookings(10), l.of("a"))
			require.Zero(t, s.Snapshot().Queue.ParkedKeys)
		})
	}
}

func TestAParkedKeyGoesOnWhenItsLetterIsDroppedOrEdited(t *testing.T) {
	for how, end := range map[string]func(*letters.Store, uint64) error{
		"dropped": func(of *letters.Store, id uint64) error {
			if !of.Drop(id) {
				return errors.New("it was not there")
			}
			return nil
		},
		"cleared": func(of *letters.Store, _ uint64) error { of.Clear(letters.Filter{}); return nil },
		"edited": func(of *letters.Store, id uint64) error {
			return of.RetryAs(context.Background(), id, booking{"a", 100})
		},
		"edited, with another key": func(of *letters.Store, id uint64) error {
			return of.RetryAs(context.Background(), id, booking{"b", 1})
		},
	} {
		t.Run(how, func(t *testing.T) {
			l := newParkLedger()
			l.fail(booking{"a", 2}, errNo)
			s := l.stage()
			p := run(t, s)
			book(t, s, "a", 1, 4)
			eventually(t, "the letter is there", func() bool { return p.Failures().Len() == 1 })
			eventually(t, "the others wait", func() bool { return s.Snapshot().Queue.Held == 2 })
			require.NoError(t, end(p.Failures(), p.Failures().List(letters.Filter{})[0].ID))
			want := []int{1, 3, 4}
			if how == "edited" {
				want = []int{1, 100, 3, 4}
			}
			eventually(t, "the key goes on", func() bool { return len(l.of("a")) == len(want) })
			require.Equal(t, want, l.of("a"))
			require.Zero(t, s.Snapshot().Queue.ParkedKeys)
		})
	}
}

func TestAParkedKeyGoesOnWhenItsLetterIsEvicted(t *testing.T) {
	l := newParkLedger()
	for n := range 3 {
		l.fail(booking{fmt.Sprint("k", n), 1}, errNo)
	}
	s := l.stage()
	p := run(t, s, pipeline.KeepLetters(letters.Options{Most: 2}))
	for n := range 3 {
		book(t, s, fmt.Sprint("k", n), 1, 2)
		eventually(t, "it has its letter", func() bool { // later than it counts as failed
			return slices.ContainsFunc(p.Failures().List(letters.Filter{}), func(l letters.Letter) bool { return l.Command == booking{fmt.Sprint("k", n), 1} })
		})
	}
	eventually(t, "the first key goes on", func() bool { return len(l.of("k0")) == 1 })
	require.Equal(t, []int{2}, l.of("k0"))
	require.Equal(t, 2, s.Snapshot().Queue.ParkedKeys)
	require.Empty(t, l.of("k1"))
	eventually(t, "the journal says so", func() bool {
		return slices.ContainsFunc(p.Journal(), func(ch controller.Change) bool { return ch.Policy == "letters" && ch.StageName == "book" })
	})
	p.Failures().Clear(letters.Filter{})
}

func TestAFullParkedKeyHoldsUpNoOther(t *testing.T) {
	l := newParkLedger()
	s := l.stage(stage.Capacity(16), stage.Overflow(overflow.Reject))
	p := run(t, s)
	const keys = 40 // each with as many commands as may wait
	for k := range keys {
		l.fail(booking{fmt.Sprint("k", k), 0}, errNo)
	}
	refused := 0
	for k := range keys {
		key := fmt.Sprint("k", k)
		book(t, s, key, 0, 0)
		eventually(t, "it is parked", func() bool { return s.Snapshot().Queue.ParkedKeys == k+1 })
		for n := range 10 {
			if err := s.Submit(soon(t), booking{key, n + 1}); err != nil {
				require.ErrorIs(t, err, stage.ErrFull)
				refused++
			}
		}
	}
	q := s.Snapshot().Queue
	require.Equal(t, 16, q.Held, "as many wait as the stage has slots")
	require.Equal(t, keys*10-16, refused)
	for n := range 100 {
		require.NoError(t, s.Submit(soon(t), booking{"free", n}))
		eventually(t, "the other key goes on", func() bool { return len(l.of("free")) == n+1 })
	}
	l.repair()
	_, err := p.Failures().RetryAll(soon(t), letters.Filter{})
	require.NoError(t, err)
	eventually(t, "all go on", func() bool { return s.Snapshot().Queue.Load() == 0 })
	require.Equal(t, []int{0, 1, 2, 3, 4}, l.of("k0"))
}

func TestADrainThatOnlyParkedKeysHoldUpSaysSo(t *testing.T) {
	l := newParkLedger()
	l.fail(booking{"a", 1}, errNo)
	s := l.stage()
	p := start(t, s)
	book(t, s, "a", 1, 5)
	book(t, s, "b", 1, 5)
	err := p.Drain(soon(t))
	require.ErrorIs(t, err, pipeline.ErrParked)
	require.ErrorContains(t, err, "4 queued, of which 4 wait for 1 parked keys")
	require.Equal(t, bookings(5), l.of("b"))
	parked := p.Failures().List(letters.Filter{Parked: true})
	require.Len(t, parked, 1)
	require.ErrorIs(t, p.Failures().Retry(soon(t), parked[0].ID), stage.ErrDraining)
	require.NoError(t, p.Reopen())
	l.repair()
	require.NoError(t, p.Failures().Retry(soon(t), parked[0].ID))
	require.NoError(t, p.Stop(soon(t)))
	require.Equal(t, bookings(5), l.of("a"))
}

func TestAStopWithParkedKeysLeavesLettersOfTheCommandsThatWait(t *testing.T) {
	l := newParkLedger()
	l.fail(booking{"a", 1}, errNo)
	s := l.stage()
	p := start(t, s)
	book(t, s, "a", 1, 5)
	began := time.Now()
	err := p.Stop(soon(t))
	require.ErrorIs(t, err, pipeline.ErrParked)
	require.Less(t, time.Since(began), enough/2)
	require.Equal(t, 4, p.DeadLetters().Len())
	require.Equal(t, 1, p.Failures().Len())
	atRest(t, p)
}

// bookingsFrom returns a source of bookings that continues at a position, and does not come to an end.
func bookingsFrom(all []booking, at int64, save func(int64)) source.Source[booking] {
	src := source.From(func(ctx context.Context, from int64, submit func(booking, int64) error) error {
		for i := from; i < int64(len(all)); i++ {
			if err := submit(all[i], i+1); err != nil {
				return err
			}
		}
		<-ctx.Done()
		return nil
	})
	return source.Checkpoint(src, at, func(_ context.Context, at int64) error { save(at); return nil })
}

// A process is killed when a copy of its files is all that the next one has. There the letter parks its key again, before
// commands come from the checkpoint.
func TestAParkedKeySurvivesAKillWithACheckpointAndLettersInADirectory(t *testing.T) {
	dir, copied := t.TempDir(), t.TempDir()
	var all []booking
	for n := range 8 {
		all = append(all, booking{"a", n + 1}, booking{"b", n + 1})
	}
	first, next := newParkLedger(), newParkLedger()
	first.fail(booking{"a", 3}, errNo)
	first.fail(booking{"b", 8}, nil)
	var position atomic.Int64
	s := first.stage()
	p := start(t, s, pipeline.KeepLetters(letters.Options{Dir: dir}), pipeline.Feed("log", s, bookingsFrom(all, 0, position.Store)))
	eventually(t, "both keys are parked", func() bool {
		q := s.Snapshot().Queue
		return q.Held == 5 && q.ParkedKeys == 2 && p.Failures().Len() == 1 && p.Quarantine().Len() == 1
	})
	at := position.Load()
	require.NoError(t, os.CopyFS(copied, os.DirFS(dir)))
	now, stop := context.WithCancel(context.Background())
	stop()
	require.ErrorIs(t, p.Stop(now), context.Canceled)
	require.Equal(t, bookings(2), first.of("a"))

	s = next.stage()
	p = run(t, s, pipeline.KeepLetters(letters.Options{Dir: copied}), pipeline.Feed("log", s, bookingsFrom(all, at, position.Store)))
	require.Equal(t, 2, s.Snapshot().Queue.ParkedKeys)
	eventually(t, "the commands of the key wait that are not behind the checkpoint", func() bool { return s.Snapshot().Queue.Held >= 5 })
	require.Empty(t, next.of("a"), "no command overtakes the one that has failed")
	for _, store := range []*letters.Store{p.Failures(), p.Quarantine()} {
		n, err := store.RetryAll(soon(t), letters.Filter{})
		require.NoError(t, err)
		require.Equal(t, 1, n)
	}
	eventually(t, "the keys go on", func() bool { return s.Snapshot().Queue.Load() == 0 })
	applied := next.of("a")
	require.Equal(t, 3, applied[0], "the retried command comes first")
	require.Equal(t, []int{4, 5, 6, 7, 8}, applied[len(applied)-5:])
	require.Equal(t, 8, next.of("b")[0])
}

func TestAStageWithParkedKeysIsRefusedWhereItsLettersAreNotKept(t *testing.T) {
	l := newParkLedger()
	for _, row := range []struct {
		parts []pipeline.Part
		want  string
	}{
		{[]pipeline.Part{l.stage(), pipeline.KeepLetters(letters.Options{Most: -1})}, "KeepLetters keeps none"},
		{[]pipeline.Part{l.stage(), pipeline.Checkpoint(t.TempDir()+"/file", time.Second)}, "use source.Checkpoint"},
		{[]pipeline.Part{stage.Func("s", echo[int], stage.ParkOnFailure())}, "is for keyed stages"},
	} {
		_, err := pipeline.New("test", append(row.parts, quiet)...)
		require.ErrorContains(t, err, row.want)
		require.ErrorContains(t, err, "ParkOnFailure")
	}
	s := l.stage()
	bounded := func(ctx context.Context, _ func(booking) error) error {
		return feed.SetBound(ctx, feed.Bound{Most: 8, Source: "inlet \"orders\"", Option: "MaxInFlight"})
	}
	p := start(t, s, pipeline.Feed("orders", s, source.Source[booking](bounded)))
	eventually(t, "the feed fails", func() bool { return p.Err() != nil })
	require.ErrorContains(t, p.Err(), `inlet "orders" delivers a command that has failed again, and ParkOnFailure of stage "book" keeps it in a letter`)
	_ = p.Stop(soon(t))
}

func TestACallThatFailsParksNoKeyUnlessItCrashes(t *testing.T) {
	l := newParkLedger()
	l.fail(booking{"a", 1}, errNo)
	l.fail(booking{"a", 2}, nil)
	s := l.stage()
	p := run(t, s)
	_, err := stage.Call[any](soon(t), s, booking{"a", 1})
	require.ErrorIs(t, err, errNo)
	require.Zero(t, s.Snapshot().Queue.ParkedKeys)
	_, err = stage.Call[any](soon(t), s, booking{"a", 2})
	require.True(t, stage.Crashed(err))
	require.Equal(t, 1, s.Snapshot().Queue.ParkedKeys)
	require.Equal(t, 1, p.Quarantine().Clear(letters.Filter{}))
	require.Zero(t, s.Snapshot().Queue.ParkedKeys)
}

// parkFlaky is an instance whose commands fail in turn: some with an error, some with a crash, each a few times.
type parkFlaky struct{ of *flakyPark }

type flakyPark struct {
	*parkLedger
	left map[booking]int // how many more times it fails
}

func (l *flakyPark) try(b booking) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.left[b] > 0 {
		if l.left[b]--; b.N%2 == 0 {
			panic("a bad booking")
		}
		return errNo
	}
	l.applied[b.Account] = append(l.applied[b.Account], b.N)
	return nil
}

func (f parkFlaky) HandleCommand(_ context.Context, b booking) behaviour.Outcome {
	if err := f.of.try(b); err != nil {
		return behaviour.Error(err)
	}
	return behaviour.OK(nil)
}

// suspendingPark suspends before it fails.
type suspendingPark struct{ parkFlaky }

func (f suspendingPark) HandleSuspending(c behaviour.Suspender, b booking) behaviour.Outcome {
	coroutine.Yield(c)
	return f.HandleCommand(c, b)
}

// Nothing overtakes a command that has failed, whatever happens meanwhile: each account has its bookings in the order in which they were submitted.
func TestEachAccountOfALedgerHasItsBookingsInOrderThoughSomeFail(t *testing.T) {
	const accounts, each = 6, 60
	plain := func(l *flakyPark, opts ...stage.Option) *stage.Stage[booking] {
		return stage.Keyed("book", parkAccountOf, func(string) parkFlaky { return parkFlaky{l} }, opts...)
	}
	suspending := func(l *flakyPark, opts ...stage.Option) *stage.Stage[booking] {
		return stage.Keyed("book", parkAccountOf, func(string) suspendingPark { return suspendingPark{parkFlaky{l}} }, opts...)
	}
	for name, row := range map[string]struct {
		make func(*flakyPark, ...stage.Option) *stage.Stage[booking]
		cpus int
		opts []stage.Option
	}{
		"plain":                  {plain, 0, nil},
		"one CPU":                {plain, 1, nil},
		"with retries":           {plain, 0, []stage.Option{stage.Retry(stage.RetryPolicy{Attempts: 2})}},
		"small":                  {plain, 0, []stage.Option{stage.Capacity(4), stage.Batch(2)}},
		"passivated":             {plain, 0, []stage.Option{stage.Passivate(0, 1)}},
		"with a rate":            {plain, 0, []stage.Option{stage.RateBy(parkAccountOf, 5, time.Millisecond, 5)}},
		"suspending":             {suspending, 0, nil},
		"suspending, on one CPU": {suspending, 1, []stage.Option{stage.Capacity(8)}},
	} {
		t.Run(name, func(t *testing.T) {
			if row.cpus > 0 {
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(row.cpus))
			}
			l := &flakyPark{newParkLedger(), map[booking]int{}}
			for a := range accounts {
				for n := 1; n <= each; n++ {
					l.left[booking{fmt.Sprint(a), n}] = []int{0, 0, 0, 1, 2}[rand.IntN(5)]
				}
			}
			s := row.make(l, append([]stage.Option{stage.ParkOnFailure()}, row.opts...)...)
			p := start(t, s, pipeline.KeepLetters(letters.Options{Most: 4 * accounts}))
			done, others := make(chan struct{}), sync.WaitGroup{}
			others.Go(func() {
				for i := 0; ; i++ {
					_, _ = p.Failures().RetryAll(context.Background(), letters.Filter{})
					_, _ = p.Quarantine().RetryAll(context.Background(), letters.Filter{})
					_ = p.SetPolicy([]controller.Policy{policy.Fixed{}, policy.SEDA{}}[i%2])
					select {
					case <-done:
						return
					case <-time.After(time.Millisecond):
					}
				}
			})
			var submitters sync.WaitGroup
			for a := range accounts {
				submitters.Go(func() {
					for n := 1; n <= each; n++ {
						if err := s.Submit(context.Background(), booking{fmt.Sprint(a), n}); err != nil {
							t.Error(err)
						}
					}
				})
			}
			submitters.Wait()
			eventually(t, "all are applied", func() bool {
				q := s.Snapshot().Queue
				return q.Load() == 0 && q.ParkedKeys == 0
			})
			close(done)
			others.Wait()
			for a := range accounts {
				require.Equal(t, bookings(each), l.of(fmt.Sprint(a)))
			}
			require.NoError(t, p.Stop(soon(t)))
			atRest(t, p)
		})
	}
}
