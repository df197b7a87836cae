package nats

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/coordination/transport"
)

// world is some nodes and a network between them that keeps the order of what one sends to another, and loses what it likes. All happens on
// one goroutine, as the test decides.
type world struct {
	t        *rapid.T
	now      time.Time
	step     int
	programs map[string]*program // by the names of their nodes
	network  map[[2]string][][]byte
	number   uint64
	sent     map[uint64]*sending
	places   map[uint64]int // how many messages were sent, by session
	arrived  map[uint64]int // how many have arrived
}

// program is the program that has the name of a node now.
type program struct {
	peers *peers
	last  map[string]uint64 // the number that came last from a node
	after map[string]int    // the step of the last notice about a node
}

// sending is a message that a transport has accepted.
type sending struct {
	from    *program
	node    string   // of the receiver
	step    int      // at which it was sent
	to      *program // that had the name when it was published
	left    int      // the step at which that was
	session uint64   // by which it was
	place   int      // its place in the session
	arrived bool
}

const beating = time.Second

func newWorld(t *rapid.T) *world {
	w := &world{
		t: t, now: time.Unix(1, 0), programs: map[string]*program{}, network: map[[2]string][][]byte{}, sent: map[uint64]*sending{},
		places: map[uint64]int{}, arrived: map[uint64]int{},
	}
	for _, name := range []string{"a", "b", "c"} {
		w.start(name)
	}
	return w
}

// start starts a program, which watches all others.
func (w *world) start(name string) {
	pr := &program{last: map[string]uint64{}, after: map[string]int{}}
	pr.peers = newPeers(name, 1<<20, beating, func() time.Time { return w.now }, func(node string, data []byte) error {
		link := [2]string{name, node}
		w.network[link] = append(w.network[link], slices.Clone(data))
		w.leave(node, data)
		return nil
	})
	pr.peers.patience = 3 * beating
	pr.peers.setMaxPayload(1 << 10)
	pr.peers.deliver = func(from string, m *transport.Message) { w.arrive(pr, from, m.Call) }
	w.programs[name] = pr
}

// leave notes that messages are published.
func (w *world) leave(node string, data []byte) {
	h, rest, ok := parse(data)
	require.True(w.t, ok)
	require.LessOrEqual(w.t, len(data), 1<<10)
	for h.kind == kindData && len(rest) > 0 {
		n, size := binary.Uvarint(rest)
		m, err := transport.Decode(rest[size:][:n])
		require.NoError(w.t, err)
		s := w.sent[m.Call]
		w.places[h.from]++
		s.left, s.to, s.session, s.place = w.step, w.programs[node], h.from, w.places[h.from]
		rest = rest[size:][n:]
	}
}

// watch has a program watch a node, if it does not.
func (w *world) watch(pr *program, node string) {
	if p := pr.peers.of[node]; p != nil && len(p.notices) > 0 {
		return
	}
	pr.peers.watch(node, func(error) {
		w.step++
		pr.after[node] = w.step
	})
}

func (w *world) arrive(pr *program, from string, number uint64) {
	w.step++
	s := w.sent[number]
	require.False(w.t, s.arrived, "%d arrives twice", number)
	require.Greater(w.t, number, pr.last[from], "in order")
	require.Same(w.t, pr, s.to, "a program gets what was sent to it, and not to one that had its name before")
	require.Less(w.t, pr.after[from], s.left+1, "%d left before the loss of %s was noticed", number, from)
	s.arrived, pr.last[from] = true, number
	w.arrived[s.session]++
	require.Equal(w.t, s.place, w.arrived[s.session], "nothing arrives after what is missing")
}

func (w *world) send(from, to string) {
	w.step++
	w.number++
	pr := w.programs[from]
	w.watch(pr, to)
	data, err := transport.Encode(&transport.Message{Call: w.number, Body: transport.Encoded(fmt.Sprintf("%0*d", w.number%300, 0))})
	require.NoError(w.t, err)
	w.sent[w.number] = &sending{from: pr, node: to, step: w.step}
	if pr.peers.send(to, data) != nil {
		delete(w.sent, w.number)
	}
}

// carry has the next message of a link arrive, or lost, and reports whether there was one.
func (w *world) carry(from, to string, lost bool) bool {
	link := [2]string{from, to}
	if len(w.network[link]) == 0 {
		return false
	}
	data := w.network[link][0]
	w.network[link] = w.network[link][1:]
	if !lost {
		w.programs[to].peers.receive(from, data)
	}
	return true
}

// replace ends the program of a node, and starts another one in its place. Farewell says whether it has said good bye.
func (w *world) replace(name string, farewell bool) {
	if farewell {
		w.programs[name].peers.close(errTransportClosed)
		w.programs[name].peers.writeAll()
	}
	w.start(name)
}

// beat lets half a heartbeat pass.
func (w *world) beat(due bool) {
	w.now = w.now.Add(beating / 2)
	for _, name := range w.names() {
		w.programs[name].peers.check(due)
	}
}

func (w *world) names() []string { return slices.Sorted(maps.Keys(w.programs)) }

// settle lets the network work well, and time pass.
func (w *world) settle() {
	for round := range 20 {
		w.beat(round%2 == 0)
		for moved := true; moved; {
			moved = false
			for _, name := range w.names() {
				w.programs[name].peers.writeAll()
			}
			for _, from := range w.names() {
				for _, to := range w.names() {
					moved = w.carry(from, to, false) || moved
				}
			}
		}
	}
}

// A node that has stood still does not take the others for dead before it has handled what they sent meanwhile.
func TestANodeThatStoodStillDoesNotJudgeTheOthers(t *testing.T) {
	now := time.Unix(1, 0)
	a := newPeers("a", 1<<20, beating, func() time.Time { return now }, func(string, []byte) error { return nil })
	a.patience = 3 * beating
	var lost error
	a.watch("b", func(reason error) { lost = reason })
	for range 2 {
		now = now.Add(beating / 2)
		a.check(true)
	}
	now = now.Add(time.Hour)
	a.check(true)
	require.NoError(t, lost, "an hour counts as one heartbeat")
	for range 2 {
		now = now.Add(beating / 2)
		a.check(true)
	}
	require.ErrorContains(t, lost, "it does not answer since")
}

// Whatever the network loses, messages arrive in order, at most once and not after a notice; and none is missing without one.
func TestPeersLoseNothingSilently(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		name := rapid.SampledFrom(w.names())
		loses := rapid.Bool().Draw(t, "the network loses messages")
		pair := func(t *rapid.T) (from, to string) {
			from = name.Draw(t, "from")
			to = rapid.SampledFrom(slices.DeleteFunc(w.names(), func(n string) bool { return n == from })).Draw(t, "to")
			return from, to
		}
		if rapid.Bool().Draw(t, "they know each other") {
			for _, from := range w.names() {
				for _, to := range w.names() {
					if from != to {
						w.watch(w.programs[from], to)
					}
				}
			}
			w.settle()
		}
		ended, due := false, false
		t.Repeat(map[string]func(*rapid.T){
			"send": func(t *rapid.T) { w.send(pair(t)) },
			"send more": func(t *rapid.T) {
				from, to := pair(t)
				for range rapid.IntRange(1, 10).Draw(t, "n") {
					w.send(from, to)
				}
			},
			"write": func(t *rapid.T) { w.programs[name.Draw(t, "node")].peers.writeAll() },
			"send and lose": func(t *rapid.T) {
				if !loses {
					t.Skip()
				}
				ended = true
				from, to := pair(t)
				w.send(from, to)
				w.programs[from].peers.writeAll()
				for range rapid.IntRange(0, 2).Draw(t, "carried") {
					w.carry(from, to, false)
				}
				w.carry(from, to, true)
			},
			"carry": func(t *rapid.T) {
				from, to := pair(t)
				w.carry(from, to, false)
			},
			"carry all": func(t *rapid.T) {
				from, to := pair(t)
				for w.carry(from, to, false) {
				}
			},
			"lose": func(t *rapid.T) {
				if !loses {
					t.Skip()
				}
				ended = true
				from, to := pair(t)
				w.carry(from, to, true)
			},
			"no responders": func(t *rapid.T) {
				if !loses {
					t.Skip()
				}
				ended = true
				from, to := pair(t)
				w.programs[from].peers.absent(to)
			},
			"away": func(t *rapid.T) {
				if !loses {
					t.Skip()
				}
				ended = true
				pr := w.programs[name.Draw(t, "node")]
				pr.peers.setAway(errAway)
				w.send(pair(t))
				pr.peers.setAway(nil)
			},
			"replace": func(t *rapid.T) {
				if !loses {
					t.Skip()
				}
				ended = true
				w.replace(name.Draw(t, "node"), rapid.Bool().Draw(t, "farewell"))
			},
			"beat": func(t *rapid.T) {
				if !loses {
					t.Skip() // what is not carried in time is lost
				}
				ended = true
				due = !due
				w.beat(due)
			},
		})
		w.settle()
		for number, s := range w.sent {
			if w.programs[s.from.peers.node] != s.from {
				continue // its program has ended
			}
			noticed := s.from.after[s.node] > s.step
			require.True(t, s.arrived || noticed, "%d is missing, and nothing was said", number)
			require.False(t, noticed && !ended, "a notice without a reason")
		}
	})
}
