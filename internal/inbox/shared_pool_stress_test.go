package inbox

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/command"
)

// mill is a little graph of small inboxes, with shared pools and workers of the inboxes' own that
// are goroutines: A to B, B to C and D, C and D to E.
type mill struct {
	*Pipeline

	rooms []*Inbox
	ways  [][]int
	crews []*SharedPool
	hands []*millhand

	over                    atomic.Bool
	accepted, through, dead atomic.Int64
	bell                    chan struct{}
}

// millhand is a worker without an actor: a goroutine that sleeps on a channel.
type millhand struct {
	Member
	m     *mill
	crew  *SharedPool // nil: it is an inbox's own
	own   *Inbox
	bell  chan struct{}
	tally Tally
	outs  [][]command.Envelope
	rnd   *rand.Rand
	doing atomic.Pointer[string]
}

func newMill(rnd *rand.Rand) *mill {
	m := &mill{Pipeline: newHouse(), ways: [][]int{{1}, {2, 3}, {4}, {4}, nil}, bell: make(chan struct{}, 1)}
	m.Ended = func(Ending) {
		m.dead.Add(1)
		m.ring()
	}
	for i := range 2 {
		m.crews = append(m.crews, NewSharedPool(fmt.Sprint("crew", i), m.Pipeline))
		m.crews[i].SetDispatch(dispatchModes[rnd.IntN(3)])
	}
	for i := range m.ways {
		in := New(Config{
			Name: string(rune('A' + i)), Capacity: 1 + rnd.IntN(6), Batch: 4, Instances: 2 + rnd.IntN(2), StreakEnds: time.Minute,
			Retry: Retry{Attempts: rnd.IntN(3)},
		})
		in.Place, in.limit = i, 4
		in.Attach(m.Pipeline)
		in.Open()
		m.rooms = append(m.rooms, in)
		m.bind(in, rnd.IntN(3))
	}
	for i, ways := range m.ways {
		for _, to := range ways {
			m.rooms[i].Ahead(m.rooms[to])
		}
	}
	for _, sp := range m.crews {
		for range 1 + rnd.IntN(3) {
			m.hands = append(m.hands, m.hand(sp, nil, rnd))
		}
	}
	for _, in := range m.rooms {
		m.hands = append(m.hands, m.hand(nil, in, rnd))
	}
	return m
}

func (m *mill) hand(sp *SharedPool, own *Inbox, rnd *rand.Rand) *millhand {
	h := &millhand{
		m: m, crew: sp, own: own, bell: make(chan struct{}, 1), outs: make([][]command.Envelope, len(m.rooms)),
		rnd: rand.New(rand.NewPCG(rnd.Uint64(), rnd.Uint64())),
	}
	h.Wake = func() {
		select {
		case h.bell <- struct{}{}:
		default:
		}
	}
	return h
}

func (m *mill) ring() {
	select {
	case m.bell <- struct{}{}:
	default:
	}
}

func (m *mill) bind(in *Inbox, to int) {
	if to < len(m.crews) {
		in.Bind(m.crews[to])
		return
	}
	in.Bind(nil)
}

func (h *millhand) does(what string) { h.doing.Store(&what) }

func (h *millhand) join() {
	if h.crew != nil {
		h.crew.Join(&h.Member)
		return
	}
	if h.own.Claim(&h.Member) {
		h.Instance = new(inst)
	}
	h.own.Join(&h.Member, false)
}

// work goes on until the worker is sent away.
func (h *millhand) work() {
	h.join()
	for {
		h.does("sleeps")
		for !h.Ready() {
			<-h.bell
		}
		h.does("hands over")
		if !h.deliver(true) {
			continue
		}
		h.does("takes a turn")
		in, n := h.turn(false)
		if n == 0 {
			runtime.Gosched()
			in, n = h.turn(true)
		}
		h.Surplus = nil
		switch {
		case n < 0:
			h.leave()
			if h.m.over.Load() {
				return
			}
			h.Instance = nil
			h.join() // somebody else is hired
		case n > 0:
			h.does("works in " + in.Name())
			h.handle(in, n)
		}
	}
}

func (h *millhand) leave() {
	if h.crew != nil {
		h.crew.Leave(&h.Member, &h.tally)
		return
	}
	h.own.Yield(&h.Member)
	h.own.Leave(&h.Member)
	h.Instance = nil
	h.own.ReturnInstance(&h.Member)
}

func (h *millhand) turn(park bool) (*Inbox, int) {
	if h.crew != nil {
		return h.crew.Turn(&h.Member, &h.tally, park)
	}
	return h.own, h.own.Turn(&h.Member, &h.tally, park)
}

func (h *millhand) deliver(park bool) bool {
	for i, es := range h.outs {
		if len(es) == 0 {
			continue
		}
		n := h.m.rooms[i].HandOver(&h.Member, es, 0, h.crew != nil, park)
		h.outs[i] = slices.Clone(es[n:])
		if len(h.outs[i]) > 0 {
			return false
		}
	}
	return true
}

func (h *millhand) handle(in *Inbox, n int) {
	if h.Instance == nil {
		h.Instance = new(inst)
	}
	ways := h.m.ways[in.Place]
	for i, e := range h.Batch[:n] {
		if h.rnd.IntN(50) == 0 {
			h.crash(in, i, n)
			return
		}
		if len(ways) == 0 {
			h.tally.OK++
			h.m.through.Add(1)
			continue
		}
		to := ways[h.rnd.IntN(len(ways))]
		h.tally.Forwarded++
		h.outs[to] = append(h.outs[to], command.Envelope{Cmd: e.Cmd})
	}
	if len(ways) == 0 {
		h.m.ring()
	}
}

// crash is a crash at command i of n; another actor takes the seat.
func (h *millhand) crash(in *Inbox, i, n int) {
	batch := slices.Clone(h.Batch[:n])
	culprit := &batch[i]
	culprit.Failed()
	in.Crash(&h.Member, &h.tally, culprit, batch[i+1:], culprit.Tries() < in.cfg.Retry.Attempts, ErrStopped)
	all := h.deliver(false)
	if h.crew != nil {
		h.crew.Leave(&h.Member, &h.tally)
		in.Quit(&h.Member)
	} else {
		if all {
			in.Yield(&h.Member)
		}
		in.ReturnInstance(&h.Member)
	}
	h.Instance = nil
	h.join()
}

// decide does what controllers and people do, at random.
func (m *mill) decide(rnd *rand.Rand) {
	in, sp := m.rooms[rnd.IntN(len(m.rooms))], m.crews[rnd.IntN(len(m.crews))]
	switch rnd.IntN(9) {
	case 0, 1:
		m.bind(in, rnd.IntN(3))
	case 2:
		sp.SetPlan(&controller.VisitPlan{
			Order: []controller.StageID{controller.StageID(rnd.IntN(5)), controller.StageID(rnd.IntN(5))}, Now: rnd.IntN(2) == 0,
			Gating: controller.Gating(rnd.IntN(4)), Bound: rnd.IntN(3), Quantum: time.Duration(rnd.IntN(2)) * time.Microsecond,
			Restart: rnd.IntN(2) == 0, Advance: rnd.IntN(2) == 0,
		})
	case 3:
		{
			sp.SetDispatch(dispatchModes[rnd.IntN(3)])
		}
	case 4:
		paused := rnd.IntN(3) == 0
		in.Adjust(func(k *Knobs) { k.Paused = paused })
	case 5:
		n := rnd.IntN(3)
		in.Adjust(func(k *Knobs) { k.Instances, k.Capacity, k.Priority = 2+n%2, 1+2*n, n })
	case 6:
		in.Rest(time.Duration(rnd.IntN(100)) * time.Microsecond)
	case 7:
		sp.Shrink(1)
		sp.Unshrink(1)
	default:
		runtime.Gosched()
	}
}

// quiet puts all right that keeps workers away.
func (m *mill) quiet() {
	for _, sp := range m.crews {
		sp.Unshrink(100)
	}
	for _, in := range m.rooms {
		in.Adjust(func(k *Knobs) { k.Paused = false })
	}
}

// who tells what everybody does.
func (m *mill) who() string {
	var b strings.Builder
	fmt.Fprintf(&b, "accepted %d, through %d, dead %d\n", m.accepted.Load(), m.through.Load(), m.dead.Load())
	for i, s := range Snapshot(m.rooms) {
		in := m.rooms[i]
		crew := "its own"
		if s.Crew != nil {
			crew = s.Crew.Name()
		}
		in.mu.Lock()
		fmt.Fprintf(&b, "%s, by %s: queued %d of %d, in hand %d, out %d of %d, made %d, shelf %d, tokens %d, stalled %v, resting %v, behind %d, blocked %d\n",
			in.Name(), crew, s.Queued, s.Knobs.Capacity, s.InHand, s.Out, s.Knobs.Instances, in.made, len(in.idleInstances), in.tokens.Load(),
			in.stalled, in.resting, len(in.behind), len(in.blocked))
		in.mu.Unlock()
	}
	for _, sp := range m.crews {
		sp.mu.Lock()
		fmt.Fprintf(&b, "%s, %v: live %d, idle %d, waking %d, tokens %d, noted %d\n",
			sp.name, sp.Dispatch(), sp.live, len(sp.idle), sp.waking, len(sp.ready), sp.noted.Load())
		sp.mu.Unlock()
	}
	for i, h := range m.hands {
		doing := "nothing"
		if p := h.doing.Load(); p != nil {
			doing = *p
		}
		fmt.Fprintf(&b, "worker %d %s, ready %v\n", i, doing, h.Ready())
	}
	return b.String()
}

// Crews, workers of the inboxes' own, crashes, and decisions all the time: what was
// accepted comes to its end.
func TestCrewsLoseNothingWhateverIsDecidedMeanwhile(t *testing.T) {
	rounds := 50
	if testing.Short() {
		rounds = 10
	}
	for range rounds {
		seed := rand.Uint64()
		grind(t, seed)
	}
}

func grind(t *testing.T, seed uint64) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(seed, 1))
	m := newMill(rnd)
	var hands, crowd, decisions sync.WaitGroup
	for _, h := range m.hands {
		hands.Go(h.work)
	}
	for p := range 3 {
		crowd.Go(func() {
			for i := range 100 {
				ctx, cancel := context.WithCancel(context.Background())
				if (i+p)%5 == 0 {
					go cancel()
				}
				if bring(ctx, m.rooms[0], i) == nil {
					m.accepted.Add(1)
				}
				cancel()
			}
		})
	}
	came := make(chan struct{})
	decisions.Go(func() {
		for {
			select {
			case <-came:
				m.quiet()
				return
			default:
				m.decide(rnd)
				runtime.Gosched()
			}
		}
	})
	go func() { defer close(came); crowd.Wait() }()
	patience := time.NewTimer(30 * time.Second) // never passes, unless somebody is stuck
	defer patience.Stop()
	wait := func(c <-chan struct{}) {
		select {
		case <-c:
		case <-patience.C:
			require.FailNow(t, "stuck", "seed %d\n%s", seed, m.who())
		}
	}
	wait(came)
	decisions.Wait()
	for m.through.Load()+m.dead.Load() < m.accepted.Load() {
		wait(m.bell)
	}
	require.Equal(t, m.accepted.Load(), m.through.Load()+m.dead.Load(), "seed %d", seed)
	m.over.Store(true)
	for _, in := range m.rooms {
		in.Shrink(1)
	}
	gone := make(chan struct{})
	go func() { defer close(gone); hands.Wait() }()
	for again := true; again; {
		for _, sp := range m.crews {
			sp.Unshrink(100)
			sp.Shrink(10) // once should do; see TestAWorkerThatIsAboutToRest...
		}
		select {
		case <-gone:
			again = false
		case <-patience.C:
			require.FailNow(t, "not gone", "seed %d\n%s", seed, m.who())
		case <-time.After(time.Millisecond):
		}
	}
	for _, s := range Snapshot(m.rooms) {
		require.Equal(t, s.Submitted+s.Received, s.OK+s.Forwarded+Sum(s.Dead), "seed %d: %+v", seed, s)
		require.Zero(t, s.Queued+s.InHand+s.Delayed+s.Out+s.Busy, "seed %d: %+v", seed, s)
	}
	for _, in := range m.rooms {
		require.Len(t, in.idleInstances, in.made, "seed %d", seed)
		require.Empty(t, in.behind, "seed %d", seed)
	}
}
