package inbox

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/command"
)

// street is a house with a few inboxes in a row and one shared pool that visits them.
type street struct {
	*Pipeline

	t     *testing.T
	rooms []*Inbox
	crew  *SharedPool

	mu     sync.Mutex // guards ends
	ends   []Ending
	rounds int // how often the host was told of the end of a plan
	told   int // and of visits
}

// newHouse is a house without inboxes. Its clock does not begin at zero, as that of no
// house does.
func newHouse() *Pipeline {
	return &Pipeline{
		Base: time.Now().Add(-time.Second), Quiet: make(chan struct{}, 1), Ended: func(Ending) {},
		Reach:    func(from, to *Inbox) (back, ok bool) { return to.Place <= from.Place, true },
		InFlight: func() int { return 0 },
	}
}

// newStreet has n inboxes with instances for all, changed by those who want it otherwise.
func newStreet(t *testing.T, n int, change ...func(*Config)) *street {
	t.Helper()
	st := &street{Pipeline: newHouse(), t: t}
	st.Ended = func(e Ending) {
		st.mu.Lock()
		defer st.mu.Unlock()
		st.ends = append(st.ends, e)
	}
	st.RoundEnd = func(*SharedPool) { st.rounds++ }
	st.Visited = func(*SharedPool) { st.told++ }
	st.InFlight = func() (n int) {
		for _, in := range st.rooms {
			n += in.Load()
		}
		return n
	}
	st.crew = NewSharedPool("crew", st.Pipeline)
	for i := range n {
		cfg := Config{Name: string(rune('A' + i)), Capacity: 64, Batch: 1, StreakEnds: time.Minute}
		for _, f := range change {
			f(&cfg)
		}
		in := New(cfg)
		in.Place = i
		in.Attach(st.Pipeline)
		in.Open()
		in.Bind(st.crew)
		st.rooms = append(st.rooms, in)
	}
	return st
}

// submit brings a command to an inbox, from outside.
func (st *street) submit(room int, cmds ...any) {
	st.t.Helper()
	for _, cmd := range cmds {
		require.NoError(st.t, st.rooms[room].Submit(st.t.Context(), &command.Envelope{Cmd: cmd}))
	}
}

// many submits n commands, which are called by number.
func (st *street) many(room, n int) {
	st.t.Helper()
	for i := range n {
		st.submit(room, i)
	}
}

// pass lets time go by, in a bubble. What was read so far comes before what the clock
// will write.
func (st *street) pass(d time.Duration) {
	for _, in := range st.rooms {
		in.mu.Lock()
		in.mu.Unlock() //nolint:staticcheck // on purpose
	}
	time.Sleep(d)
	synctest.Wait()
}

// visitor is a worker of a shared pool, or of an inbox of its own, without an actor.
type visitor struct {
	Member
	st    *street
	crew  *SharedPool // nil: it is an inbox's own
	own   *Inbox
	tally Tally
	woken int
	n     int // in hand
	at2   *Inbox
}

// hire joins a worker to the street's shared pool.
func (st *street) hire() *visitor {
	v := &visitor{st: st, crew: st.crew}
	v.Wake = func() { v.woken++ }
	st.crew.Join(&v.Member)
	return v
}

// employ joins a worker to an inbox's own, as a worker's actor does.
func (st *street) employ(in *Inbox) *visitor {
	v := &visitor{st: st, own: in}
	v.Wake = func() { v.woken++ }
	if in.Claim(&v.Member) {
		v.Instance = new(int)
	}
	in.Join(&v.Member, false)
	return v
}

// turn finishes what is in hand with success, and takes a turn. It returns the inbox and
// the commands.
func (v *visitor) turn(park bool) (*Inbox, []any) {
	v.st.t.Helper()
	v.tally.OK += v.n
	return v.next(park)
}

// next takes a turn; what became of the last batch is booked already.
func (v *visitor) next(park bool) (*Inbox, []any) {
	v.st.t.Helper()
	if v.crew != nil {
		v.at2, v.n = v.crew.Turn(&v.Member, &v.tally, park)
	} else {
		v.at2, v.n = v.own, v.own.Turn(&v.Member, &v.tally, park)
	}
	v.Surplus = nil
	if v.n <= 0 {
		n := v.n
		v.n = 0
		if n < 0 {
			return nil, []any{"gone"}
		}
		return nil, nil
	}
	if v.Instance == nil {
		require.True(v.st.t, v.at2.equips(&v.Member), "in a room without an instance")
		v.Instance = new(int)
	}
	cmds := make([]any, 0, v.n)
	for _, e := range v.Batch[:v.n] {
		cmds = append(cmds, e.Cmd)
	}
	return v.at2, cmds
}

// equips reports whether the worker may make an instance.
func (in *Inbox) equips(m *Member) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return m.owns
}

// forward finishes what is in hand by handing it to another inbox, and returns how many
// were taken there.
func (v *visitor) forward(to *Inbox, park bool) int {
	v.tally.Forwarded += v.n
	es := slices.Clone(v.Batch[:v.n])
	v.n = 0
	return to.HandOver(&v.Member, es, 0, v.crew != nil && to.Waits(), park)
}

// crash has the handler of the first command in hand crash.
func (v *visitor) crash(retry bool) {
	batch := slices.Clone(v.Batch[:v.n])
	batch[0].Failed()
	v.at2.Crash(&v.Member, &v.tally, &batch[0], batch[1:], retry, ErrStopped)
	v.n = 0
	if v.crew != nil {
		v.crew.Leave(&v.Member, &v.tally)
		v.at2.Quit(&v.Member)
	} else {
		v.own.Yield(&v.Member)
		v.own.ReturnInstance(&v.Member)
	}
}

// trail takes n turns and tells where they led: the inbox's name and the command of each.
func (v *visitor) trail(n int) []string {
	v.st.t.Helper()
	var names []string
	for range n {
		in, cmds := v.turn(false)
		if in == nil {
			names = append(names, "-")
			continue
		}
		for range cmds {
			names = append(names, in.Name())
		}
	}
	return names
}

func (st *street) polled(plan *controller.VisitPlan) {
	st.crew.SetDispatch(controller.Polled)
	st.crew.SetPlan(plan)
}

// bring submits a command, and tells how it went.
func bring(ctx context.Context, in *Inbox, cmd any) error {
	return in.Submit(ctx, &command.Envelope{Cmd: cmd})
}

// Rest has the shared pools leave the inbox alone for a while.
func (in *Inbox) Rest(pause time.Duration) {
	var fx effects
	in.mu.Lock()
	in.leaveAlone(pause)
	in.unlock(&fx)
}
