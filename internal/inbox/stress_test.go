package inbox

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/golda-dev/golda/internal/command"
)

func TestMain(m *testing.M) {
	// No fail files: a run leaves the source tree clean, and prints the seed, which is enough.
	if err := flag.Set("rapid.nofailfile", "true"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// chainWorker is a worker without an actor: a goroutine that sleeps on a channel. It forwards what it takes from one inbox to
// the next.
type chainWorker struct {
	Member
	wakeup chan struct{}
	in     *Inbox
	out    *Inbox // nil for the last inbox
	done   func(n int)

	tally Tally
	load  []command.Envelope
}

func newChainWorker(in, out *Inbox, done func(int)) *chainWorker {
	w := &chainWorker{wakeup: make(chan struct{}, 1), in: in, out: out, done: done}
	w.Wake = func() {
		select {
		case w.wakeup <- struct{}{}:
		default:
		}
	}
	return w
}

// work takes turns until the worker is asked to leave.
func (w *chainWorker) work() {
	w.in.Workers().Join(&w.Member, false)
	defer w.in.Workers().Leave(&w.Member)
	for {
		for !w.Ready() {
			<-w.wakeup
		}
		if len(w.load) > 0 {
			n := w.out.Senders().HandOver(&w.Member, w.load, 0, false, true)
			w.load = w.load[:copy(w.load, w.load[n:])]
			if len(w.load) > 0 {
				continue
			}
		}
		n := w.in.Turn(&w.Member, &w.tally, true)
		if n < 0 {
			return
		}
		w.tally.Timed = int32(n)
		if w.out != nil {
			w.load = append(w.load, w.Member.Batch[:n]...)
			w.tally.Forwarded = n
			continue
		}
		w.tally.OK = n
		w.done(n)
	}
}

// Two inboxes in a row, and producers of which some give up: each accepted command comes through, and no worker sleeps while
// there is work.
func TestNoWorkerSleepsWhileThereIsWork(t *testing.T) {
	rounds := 1000
	if testing.Short() {
		rounds = 50
	}
	for _, capacity := range []int{1, 2, 3, 64} {
		for _, perInbox := range []int{1, 2, 8} {
			t.Run(fmt.Sprintf("capacity %d, workers %d", capacity, perInbox), func(t *testing.T) {
				for range rounds {
					runChain(t, capacity, perInbox)
				}
			})
		}
	}
}

const (
	producers    = 4
	commandsEach = 24
)

func runChain(t *testing.T, capacity, perInbox int) {
	t.Helper()
	pl := &Pipeline{Base: time.Now(), Quiet: make(chan struct{}, 1), Ended: func(Ending) {}}
	cfg := Config{Name: "r", Capacity: capacity, Batch: 8, StreakEnds: time.Minute}
	first, last := New(cfg), New(cfg)
	for _, in := range []*Inbox{first, last} {
		pl.Attach(in)
		in.Phases().Open()
	}
	var accepted, through atomic.Int64
	bell := make(chan struct{}, 1)
	done := func(n int) {
		through.Add(int64(n))
		select {
		case bell <- struct{}{}:
		default:
		}
	}
	var workers, submitters sync.WaitGroup
	for range perInbox {
		workers.Go(newChainWorker(first, last, nil).work)
		workers.Go(newChainWorker(last, nil, done).work)
	}
	for p := range producers {
		submitters.Go(func() {
			for i := range commandsEach {
				ctx, cancel := context.WithCancel(context.Background())
				if (i+p)%4 == 0 {
					go cancel()
				}
				if first.Submit(ctx, &command.Envelope{Load: i}) == nil {
					accepted.Add(1)
				}
				cancel()
			}
		})
	}
	came := make(chan struct{})
	go func() { defer close(came); submitters.Wait() }()
	timeout := time.NewTimer(30 * time.Second) // ends only if a wake-up was lost
	defer timeout.Stop()
	wait := func(c <-chan struct{}) {
		select {
		case <-c:
		case <-timeout.C:
			s := Snapshot([]*Inbox{first, last})
			require.FailNow(t, "stranded", "capacity %d, workers %d: accepted %d, through %d\n%+v\n%+v",
				capacity, perInbox, accepted.Load(), through.Load(), s[0], s[1])
		}
	}
	wait(came)
	for through.Load() < accepted.Load() {
		wait(bell)
	}
	first.Workers().Shrink(perInbox)
	last.Workers().Shrink(perInbox)
	workers.Wait()
	for _, s := range Snapshot([]*Inbox{first, last}) {
		require.Equal(t, s.Counts.Accepted, s.Counts.OK+s.Counts.Forwarded, "%+v", s)
		require.Zero(t, s.Queue.Load()+s.Workers.Live)
	}
}

// The law holds at any instant, not only at rest, and each dropped command is reported.
func TestTheAccountingLawHoldsAtEveryInstant(t *testing.T) {
	rounds := 20
	if testing.Short() {
		rounds = 2
	}
	for _, rule := range []Overflow{Wait, Reject, DropNewest, DropOldest} {
		t.Run(ruleNames[rule], func(t *testing.T) {
			for range rounds {
				runAndWatch(t, rule)
			}
		})
	}
}

func runAndWatch(t *testing.T, rule Overflow) {
	t.Helper()
	var reported atomic.Int64
	pl := &Pipeline{Base: time.Now(), Quiet: make(chan struct{}, 1), Ended: func(Ending) { reported.Add(1) }}
	first := New(Config{Name: "first", Capacity: 4, Batch: 8})
	last := New(Config{Name: "last", Capacity: 2, Batch: 8, Overflow: rule})
	inboxes := []*Inbox{first, last}
	for _, in := range inboxes {
		pl.Attach(in)
		in.Phases().Open()
	}
	var workers, submitters sync.WaitGroup
	for range 3 {
		workers.Go(newChainWorker(first, last, nil).work)
		workers.Go(newChainWorker(last, nil, func(int) {}).work)
	}
	for range producers {
		submitters.Go(func() {
			for i := range 500 {
				require.NoError(t, first.Submit(context.Background(), &command.Envelope{Load: i}))
			}
		})
	}
	over := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		for {
			for _, s := range Snapshot(inboxes) {
				out := s.Counts.Ended()
				if s.Counts.Accepted != out+uint64(s.Queue.Load()) || s.Queue.InHand < 0 || s.Workers.Busy < 0 {
					t.Errorf("the law is broken: %+v", s)
				}
				if s.Queue.Queued > s.Knobs.Capacity {
					t.Errorf("%d queued, with capacity %d", s.Queue.Queued, s.Knobs.Capacity)
				}
			}
			select {
			case <-over:
				return
			default:
				runtime.Gosched() // otherwise the others wait up to 10 ms for this processor
			}
		}
	})
	submitters.Wait()
	first.Phases().Close()
	pl.Draining.Store(true)
	for !atRest(Snapshot(inboxes)) {
		<-pl.Quiet
	}
	close(over)
	watch.Wait()
	first.Workers().Shrink(3)
	last.Workers().Shrink(3)
	workers.Wait()
	s := Snapshot(inboxes)
	require.EqualValues(t, 4*500, s[1].Counts.OK+s[1].Counts.Shed)
	require.EqualValues(t, s[1].Counts.Shed, reported.Load())
}

func atRest(all []Accounts) bool {
	var gone, come uint64
	for _, s := range all {
		if s.Queue.Load() > 0 {
			return false
		}
		gone += s.Counts.Forwarded
		come += s.Counts.Received
	}
	return gone == come
}

// A slot that is granted at the moment when its waiter gives up, or the inbox is closed, goes to the waiters behind.
func TestASlotGrantedTooLateGoesToTheNextInLine(t *testing.T) {
	rounds := 2000
	if testing.Short() {
		rounds = 200
	}
	pl := &Pipeline{Base: time.Now(), Quiet: make(chan struct{}, 1), Ended: func(Ending) {}}
	for i := range rounds {
		in := New(Config{Name: "r", Capacity: 1, Batch: 1})
		pl.Attach(in)
		in.Phases().Open()
		require.NoError(t, in.Submit(context.Background(), &command.Envelope{Load: 0}))
		var m Member
		m.Wake = func() {}
		in.Workers().Join(&m, false)
		var submitters sync.WaitGroup
		var accepted atomic.Int64
		cancels := make([]context.CancelFunc, 4)
		for j := range cancels {
			ctx, cancel := context.WithCancel(context.Background())
			cancels[j] = cancel
			submitters.Go(func() {
				if in.Submit(ctx, &command.Envelope{Load: 1}) == nil {
					accepted.Add(1)
				}
			})
		}
		submitters.Go(func() {
			for _, cancel := range cancels[:3] {
				cancel()
			}
		})
		if i%2 == 0 {
			submitters.Go(in.Phases().Close)
		}
		var tally Tally
		took := 0
		finished := make(chan struct{})
		go func() { defer close(finished); submitters.Wait() }()
		for over := false; !over; {
			select {
			case <-finished:
				over = true
			default:
				runtime.Gosched() // as above
			}
			n := in.Turn(&m, &tally, false)
			tally.OK = n
			took += n
		}
		in.Book(&m, &tally, nil)
		cancels[3]()
		for range 2 {
			n := in.Turn(&m, &tally, false)
			tally.OK = n
			took += n
		}
		require.EqualValues(t, accepted.Load()+1, took)
		require.Zero(t, in.state.slots.reserved)
		require.Zero(t, in.state.waiters.Len())
	}
}
