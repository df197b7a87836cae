package room

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

// street is a house with a few rooms in a row and one crew that visits them.
type street struct {
	*Host

	t     *testing.T
	rooms []*Room
	crew  *Crew

	mu     sync.Mutex // guards ends
	ends   []End
	rounds int // how often the host was told of the end of a plan
	told   int // and of visits
}

// newHouse is a house without rooms. Its clock does not begin at zero, as that of no
// house does.
func newHouse() *Host {
	return &Host{
		Base: time.Now().Add(-time.Second), Quiet: make(chan struct{}, 1), Ended: func(End) {},
		Reach:    func(from, to *Room) (back, ok bool) { return to.Place <= from.Place, true },
		InFlight: func() int { return 0 },
	}
}

// newStreet has n rooms with instances for all, changed by those who want it otherwise.
func newStreet(t *testing.T, n int, change ...func(*Config)) *street {
	t.Helper()
	st := &street{Host: newHouse(), t: t}
	st.Ended = func(e End) {
		st.mu.Lock()
		defer st.mu.Unlock()
		st.ends = append(st.ends, e)
	}
	st.RoundEnd = func(*Crew) { st.rounds++ }
	st.Visited = func(*Crew) { st.told++ }
	st.InFlight = func() (n int) {
		for _, r := range st.rooms {
			n += r.Load()
		}
		return n
	}
	st.crew = NewCrew("crew", st.Host)
	for i := range n {
		cfg := Config{Name: string(rune('A' + i)), Capacity: 64, Batch: 1, StreakEnds: time.Minute}
		for _, f := range change {
			f(&cfg)
		}
		r := New(cfg)
		r.Place = i
		r.Adopt(st.Host)
		r.Open()
		r.Bind(st.crew)
		st.rooms = append(st.rooms, r)
	}
	return st
}

// submit brings a command to a room, from outside.
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
	for _, r := range st.rooms {
		r.mu.Lock()
		r.mu.Unlock() //nolint:staticcheck // on purpose
	}
	time.Sleep(d)
	synctest.Wait()
}

// visitor is a worker of a crew, or of a room of its own, without an actor.
type visitor struct {
	Seat
	st    *street
	crew  *Crew // nil: it is a room's own
	own   *Room
	tally Tally
	woken int
	n     int // in hand
	at2   *Room
}

// hire joins a worker to the street's crew.
func (st *street) hire() *visitor {
	v := &visitor{st: st, crew: st.crew}
	v.Wake = func() { v.woken++ }
	st.crew.Join(&v.Seat)
	return v
}

// employ joins a worker to a room's own, as a worker's actor does.
func (st *street) employ(r *Room) *visitor {
	v := &visitor{st: st, own: r}
	v.Wake = func() { v.woken++ }
	if r.Claim(&v.Seat) {
		v.Instance = new(int)
	}
	r.Join(&v.Seat, false)
	return v
}

// turn finishes what is in hand with success, and takes a turn. It returns the room and
// the commands.
func (v *visitor) turn(park bool) (*Room, []any) {
	v.st.t.Helper()
	v.tally.OK += v.n
	return v.next(park)
}

// next takes a turn; what became of the last batch is booked already.
func (v *visitor) next(park bool) (*Room, []any) {
	v.st.t.Helper()
	if v.crew != nil {
		v.at2, v.n = v.crew.Turn(&v.Seat, &v.tally, park)
	} else {
		v.at2, v.n = v.own, v.own.Turn(&v.Seat, &v.tally, park)
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
		require.True(v.st.t, v.at2.equips(&v.Seat), "in a room without an instance")
		v.Instance = new(int)
	}
	cmds := make([]any, 0, v.n)
	for _, e := range v.Hand[:v.n] {
		cmds = append(cmds, e.Cmd)
	}
	return v.at2, cmds
}

// equips reports whether the worker may make an instance.
func (r *Room) equips(s *Seat) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return s.owns
}

// forward finishes what is in hand by handing it to another room, and returns how many
// were taken there.
func (v *visitor) forward(to *Room, park bool) int {
	v.tally.Forwarded += v.n
	es := slices.Clone(v.Hand[:v.n])
	v.n = 0
	return to.Hand(&v.Seat, es, 0, v.crew != nil && to.Waits(), park)
}

// crash has the handler of the first command in hand crash.
func (v *visitor) crash(retry bool) {
	batch := slices.Clone(v.Hand[:v.n])
	batch[0].Failed()
	v.at2.Crash(&v.Seat, &v.tally, &batch[0], batch[1:], retry, ErrStopped)
	v.n = 0
	if v.crew != nil {
		v.crew.Leave(&v.Seat, &v.tally)
		v.at2.Quit(&v.Seat)
	} else {
		v.own.Yield(&v.Seat)
		v.own.Restock(&v.Seat)
	}
}

// trail takes n turns and tells where they led: the room's name and the command of each.
func (v *visitor) trail(n int) []string {
	v.st.t.Helper()
	var names []string
	for range n {
		r, cmds := v.turn(false)
		if r == nil {
			names = append(names, "-")
			continue
		}
		for range cmds {
			names = append(names, r.Name())
		}
	}
	return names
}

func (st *street) polled(plan *controller.VisitPlan) {
	st.crew.Choose(controller.Polled)
	st.crew.Follow(plan)
}

// bring submits a command, and tells how it went.
func bring(ctx context.Context, r *Room, cmd any) error {
	return r.Submit(ctx, &command.Envelope{Cmd: cmd})
}

// Rest has the crews leave the room alone for a while.
func (r *Room) Rest(pause time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rest(pause)
}
