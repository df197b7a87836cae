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
	// A run leaves the tree clean: the seed is printed, which is enough.
	if err := flag.Set("rapid.nofailfile", "true"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// goer is a worker without an actor: a goroutine that sleeps on a channel.
type goer struct {
	Member
	bell chan struct{}
	in   *Inbox
	out  *Inbox // nil for the last room
	done func(n int)

	tally Tally
	load  []command.Envelope
}

func newGoer(in, out *Inbox, done func(int)) *goer {
	g := &goer{bell: make(chan struct{}, 1), in: in, out: out, done: done}
	g.Wake = func() {
		select {
		case g.bell <- struct{}{}:
		default:
		}
	}
	return g
}

// work goes on until the goer is sent away.
func (g *goer) work() {
	g.in.Join(&g.Member, false)
	defer g.in.Leave(&g.Member)
	for {
		for !g.Ready() {
			<-g.bell
		}
		if len(g.load) > 0 {
			n := g.out.HandOver(&g.Member, g.load, 0, false, true)
			g.load = g.load[:copy(g.load, g.load[n:])]
			if len(g.load) > 0 {
				continue
			}
		}
		n := g.in.Turn(&g.Member, &g.tally, true)
		if n < 0 {
			return
		}
		g.tally.Timed = int32(n)
		if g.out != nil {
			g.load = append(g.load, g.Member.Batch[:n]...)
			g.tally.Forwarded = n
			continue
		}
		g.tally.OK = n
		g.done(n)
	}
}

// Two inboxes in a line, producers of whom some give up: whatever was accepted
// comes through, and nobody sleeps while there is something to do.
func TestNobodySleepsWhileThereIsSomethingToDo(t *testing.T) {
	rounds := 1000
	if testing.Short() {
		rounds = 50
	}
	for _, capacity := range []int{1, 2, 3, 64} {
		for _, seats := range []int{1, 2, 8} {
			t.Run(fmt.Sprintf("capacity %d, seats %d", capacity, seats), func(t *testing.T) {
				for range rounds {
					rush(t, capacity, seats)
				}
			})
		}
	}
}

const (
	producers = 4
	parcels   = 24
)

func rush(t *testing.T, capacity, seats int) {
	t.Helper()
	pl := &Pipeline{Base: time.Now(), Quiet: make(chan struct{}, 1), Ended: func(Ending) {}}
	cfg := Config{Name: "r", Capacity: capacity, Batch: 8, StreakEnds: time.Minute}
	first, last := New(cfg), New(cfg)
	for _, in := range []*Inbox{first, last} {
		in.Attach(pl)
		in.Open()
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
	var crew, crowd sync.WaitGroup
	for range seats {
		crew.Go(newGoer(first, last, nil).work)
		crew.Go(newGoer(last, nil, done).work)
	}
	for p := range producers {
		crowd.Go(func() {
			for i := range parcels {
				ctx, cancel := context.WithCancel(context.Background())
				if (i+p)%4 == 0 {
					go cancel()
				}
				if first.Submit(ctx, &command.Envelope{Cmd: i}) == nil {
					accepted.Add(1)
				}
				cancel()
			}
		})
	}
	came := make(chan struct{})
	go func() { defer close(came); crowd.Wait() }()
	patience := time.NewTimer(30 * time.Second) // never passes, unless a wake-up was lost
	defer patience.Stop()
	wait := func(c <-chan struct{}) {
		select {
		case <-c:
		case <-patience.C:
			s := Snapshot([]*Inbox{first, last})
			require.FailNow(t, "stranded", "capacity %d, seats %d: accepted %d, through %d\n%+v\n%+v",
				capacity, seats, accepted.Load(), through.Load(), s[0], s[1])
		}
	}
	wait(came)
	for through.Load() < accepted.Load() {
		wait(bell)
	}
	first.Shrink(seats)
	last.Shrink(seats)
	crew.Wait()
	for _, s := range Snapshot([]*Inbox{first, last}) {
		require.Equal(t, s.Submitted+s.Received, s.OK+s.Forwarded, "%+v", s)
		require.Zero(t, s.Queued+s.InHand+s.Delayed+s.Live)
	}
}

// The law holds at any instant, not only at rest; and a dropped command is told.
func TestTheLawHoldsWhileEverythingMoves(t *testing.T) {
	rounds := 20
	if testing.Short() {
		rounds = 2
	}
	for _, rule := range []Overflow{Wait, Reject, DropNewest, DropOldest} {
		t.Run(ruleNames[rule], func(t *testing.T) {
			for range rounds {
				motion(t, rule)
			}
		})
	}
}

func motion(t *testing.T, rule Overflow) {
	t.Helper()
	var told atomic.Int64
	pl := &Pipeline{Base: time.Now(), Quiet: make(chan struct{}, 1), Ended: func(Ending) { told.Add(1) }}
	first := New(Config{Name: "first", Capacity: 4, Batch: 8})
	last := New(Config{Name: "last", Capacity: 2, Batch: 8, Overflow: rule})
	inboxes := []*Inbox{first, last}
	for _, in := range inboxes {
		in.Attach(pl)
		in.Open()
	}
	var crew, crowd sync.WaitGroup
	for range 3 {
		crew.Go(newGoer(first, last, nil).work)
		crew.Go(newGoer(last, nil, func(int) {}).work)
	}
	for range producers {
		crowd.Go(func() {
			for i := range 500 {
				require.NoError(t, first.Submit(context.Background(), &command.Envelope{Cmd: i}))
			}
		})
	}
	over := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		for {
			for _, s := range Snapshot(inboxes) {
				out := s.OK + s.Forwarded + s.Errors + Sum(s.Shed) + Sum(s.Dead)
				if s.Submitted+s.Received != out+uint64(s.Queued+s.InHand+s.Delayed) || s.InHand < 0 || s.Busy < 0 {
					t.Errorf("the law is broken: %+v", s)
				}
				if s.Queued > s.Knobs.Capacity {
					t.Errorf("%d queued in a room for %d", s.Queued, s.Knobs.Capacity)
				}
			}
			select {
			case <-over:
				return
			default:
				runtime.Gosched() // or the others wait for their processor for 10 ms
			}
		}
	})
	crowd.Wait()
	first.Close()
	pl.Draining.Store(true)
	for !restful(Snapshot(inboxes)) {
		<-pl.Quiet
	}
	close(over)
	watch.Wait()
	first.Shrink(3)
	last.Shrink(3)
	crew.Wait()
	s := Snapshot(inboxes)
	require.EqualValues(t, 4*500, s[1].OK+Sum(s[1].Shed))
	require.EqualValues(t, Sum(s[1].Shed), told.Load())
}

func restful(sheets []Accounts) bool {
	var gone, come uint64
	for _, s := range sheets {
		if s.Queued+s.InHand+s.Delayed > 0 {
			return false
		}
		gone += s.Forwarded
		come += s.Received
	}
	return gone == come
}

// A seat that is granted at the moment its waiter gives up, or the door is
// closed, is not lost for those behind.
func TestASeatThatComesTooLateGoesToTheNextInLine(t *testing.T) {
	rounds := 2000
	if testing.Short() {
		rounds = 200
	}
	pl := &Pipeline{Base: time.Now(), Quiet: make(chan struct{}, 1), Ended: func(Ending) {}}
	for i := range rounds {
		in := New(Config{Name: "r", Capacity: 1, Batch: 1})
		in.Attach(pl)
		in.Open()
		require.NoError(t, in.Submit(context.Background(), &command.Envelope{Cmd: 0}))
		var s Member
		s.Wake = func() {}
		in.Join(&s, false)
		var crowd sync.WaitGroup
		var accepted atomic.Int64
		cancels := make([]context.CancelFunc, 4)
		for j := range cancels {
			ctx, cancel := context.WithCancel(context.Background())
			cancels[j] = cancel
			crowd.Go(func() {
				if in.Submit(ctx, &command.Envelope{Cmd: 1}) == nil {
					accepted.Add(1)
				}
			})
		}
		crowd.Go(func() {
			for _, cancel := range cancels[:3] {
				cancel()
			}
		})
		if i%2 == 0 {
			crowd.Go(in.Close)
		}
		var tally Tally
		took := 0
		finished := make(chan struct{})
		go func() { defer close(finished); crowd.Wait() }()
		for over := false; !over; {
			select {
			case <-finished:
				over = true
			default:
				runtime.Gosched() // as above
			}
			n := in.Turn(&s, &tally, false)
			tally.OK = n
			took += n
		}
		in.Book(&s, &tally)
		cancels[3]()
		for range 2 {
			n := in.Turn(&s, &tally, false)
			tally.OK = n
			took += n
		}
		require.EqualValues(t, accepted.Load()+1, took)
		require.Zero(t, in.reserved)
		require.Zero(t, in.waiters.Len())
	}
}
