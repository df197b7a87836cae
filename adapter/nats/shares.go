package nats

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	natsgo "github.com/nats-io/nats.go"

	queue "github.com/golda-dev/golda/internal/ring"
)

// The inlet of keys that share it, see [Options.Fair], has partitions as the
// inlet of a keyed stage has: the messages of one key are in one of them, and
// each has a consumer of its own. But a partition may have many messages in
// flight, in many processes: every process asks all partitions, and asks them
// in turns, by their weights. So a partition with a million messages delays the
// others by its turn, and no more; a process that is killed leaves nothing that
// another has to take over; and no process needs to know of another one.

// errFairElsewhere refuses to use the inlet of keys that share it without their
// function.
var errFairElsewhere = errors.New("keys share it: give NewInlet the same Options.Fair, Partitions and AtOnce as in the other processes")

// errWeight refuses a command whose key has no weight.
var errWeight = errors.New("Options.Fair returned a weight below 1")

// weights are the weights of partitions: of each the weight of the key whose
// command was read last.
type weights []atomic.Int64

func (w weights) of(part int) int64 { return max(w[part].Load(), 1) }

// sharing returns the partitioning of an inlet that keys share.
func sharing[C any](of func(cmd C) (key string, weight int), parts, atOnce int) partitioning[C] {
	if parts == 0 {
		parts = defaultShares
	}
	fair := func(cmd C) (part int, weight int64, err error) {
		defer func() {
			if v := recover(); v != nil {
				err = fmt.Errorf("Options.Fair panicked: %v\n%s", v, debug.Stack())
			}
		}()
		key, w := of(cmd)
		if w < 1 {
			return 0, 0, fmt.Errorf("%w: %d of the key %.64q", errWeight, w, key)
		}
		return shareOf(key, parts), int64(w), nil
	}
	return partitioning[C]{parts: parts, fair: fair, atOnce: atOnce, weights: make(weights, parts)}
}

// shareOf returns the partition of a key. All processes, of all versions of a
// program, agree on it.
func shareOf(key string, parts int) int {
	h := fnv.New64a()
	_, _ = h.Write([]byte(key))
	return int(mix(h.Sum64()) % uint64(parts))
}

// weigh notes the weight of a partition, of which a command was read. The
// weight of a command that has none, since the function has changed, is 1.
func (p partitioning[C]) weigh(part int, cmd C) {
	if p.fair == nil || p.lanes != nil || part < 0 || part >= p.parts {
		return
	}
	_, w, err := p.fair(cmd)
	if err != nil {
		w = 1
	}
	p.weights[part].Store(w)
}

// turns chooses partitions in turns. A turn of a partition is as many messages
// as its weight says, divided by the least weight of the partitions that have
// messages now; what is left of it, if that is less than a message, stays for
// the next turn. A partition without messages has no deficit. This is the
// deficit round robin of Shreedhar and Varghese (1995), as in the line of a
// fair stage, where each message costs 1.
type turns struct {
	deficit []float64
	at      int  // the partition whose turn it is
	begun   bool // its turn has begun
}

// next returns the partition of the next message: of the partitions that have
// some, one that may give one now; -1 if there is none. A partition that may
// not keeps its deficit, up to a turn; if it must be waited for, there is no
// next message before it may.
func (t *turns) next(has, may, awaited func(part int) bool, weight func(part int) int64) int {
	unit, some := int64(math.MaxInt64), false
	for part := range t.deficit {
		if !has(part) {
			t.deficit[part] = 0
			continue
		}
		unit, some = min(unit, weight(part)), some || may(part)
	}
	if !some {
		return -1
	}
	for ; ; t.at, t.begun = (t.at+1)%len(t.deficit), false {
		if !has(t.at) || t.begun && !may(t.at) && !awaited(t.at) {
			continue
		}
		if !t.begun {
			t.begun = true
			turn := float64(weight(t.at)) / float64(unit)
			t.deficit[t.at] = min(t.deficit[t.at]+turn, 2*turn)
		}
		switch {
		case t.deficit[t.at] < 1:
		case may(t.at):
			t.deficit[t.at]--
			return t.at
		case awaited(t.at):
			return -1
		}
	}
}

// charge counts a message of a partition that had no turn; of several that
// follow one another, one.
func (t *turns) charge(part int) { t.deficit[part] = max(t.deficit[part]-1, -1) }

// order hands arrived messages on to the feed in turns of their partitions. It
// matters while the feed waits for the stage: a message of another partition
// then waits for one that the feed holds and one that is offered to it, and not
// for all that have arrived before.
type order struct {
	turns

	weights weights
	waiting []queue.Ring[*delivery] // of each partition, in the order of arrival
	n       int                     // of all partitions
}

func newOrder(w weights) *order {
	return &order{turns: turns{deficit: make([]float64, len(w))}, weights: w, waiting: make([]queue.Ring[*delivery], len(w))}
}

// run hands messages on until in is closed, and gives back the others then.
func (o *order) run(in <-chan *delivery, out chan<- *delivery, giveBack func(*delivery)) {
	var next *delivery
	for {
		if next == nil {
			next = o.pop()
		}
		offer := out
		if next == nil {
			offer = nil
		}
		select {
		case d, more := <-in:
			if more {
				o.push(d)
				continue
			}
			for ; next != nil; next = o.pop() {
				giveBack(next)
			}
			return
		case offer <- next:
			next = nil
		}
	}
}

func (o *order) push(d *delivery) {
	o.waiting[d.part].Push(d)
	o.n++
}

// pop returns the next message, nil if there is none.
func (o *order) pop() *delivery {
	if o.n == 0 {
		return nil
	}
	has := func(part int) bool { return o.waiting[part].Len() > 0 }
	awaited := func(int) bool { return false }
	part := o.next(has, has, awaited, o.weights.of)
	o.n--
	return o.waiting[part].Pop()
}

// How rounds ask.
const (
	settleTime = time.Second     // how long the first answers of all partitions are waited for
	grantTime  = time.Second     // how long a request for messages that the server has may wait for them
	awaitTime  = grantTime / 10  // how long the partitions after it wait for a request for some of the messages that the server has
	lapse      = 5 * time.Second // after the time of a request it counts as lost
)

// rounds asks the partitions of an inlet for messages, each with one request at
// a time. A partition that has no messages, as far as this process knows, has a
// request for one message, a bell, which waits in the server and takes no place
// here. With each message the server says how many more the partition has. For
// these rounds asks when there are places, turn by turn.
//
// A turn of a partition whose last request the server has not answered yet is
// waited for: a place that became free is its own, and another partition which
// the server answered sooner does not get it. So shares are kept whatever a
// request takes, at the price of places that are free for the time of one.
//
// A new rounds does not know which partitions have messages. It asks each with a
// probe, a bell that does not wait, before it deals out places: otherwise the
// partition that answers first would get all of them.
//
// A bell may so bring a message for which there is no place. It waits in the
// server only if there is a place, or nothing of the partition is here: so no
// more than one message of each partition is here without a place.
type rounds struct {
	turns

	t       *tracker
	conn    *Conn
	weights weights
	atOnce  int
	inbox   string

	requests []request // of each partition
	probes   int       // partitions whose first answer has not arrived
	left     []int     // messages of each partition that the server had with the last one it delivered
	here     []int     // messages of each partition that are here and have not ended; as of the last call of ask
	granted  int       // messages that are asked for and have places
	last     uint64    // the number of the last request
	began    time.Time
	sent     time.Time // when it asked for messages last that the server has
	swept    time.Time
	signs    int // the partition with the bell of which the server says that it waits; noPart if there is none
}

// request is a request for messages of a partition.
type request struct {
	n       int // messages that have not arrived; 0: there is no request
	bell    bool
	probe   bool // a bell that does not wait
	arrived bool // a message
	number  uint64
	sent    time.Time
	until   time.Time
}

// isAwaited reports whether the turn of the partition is waited for.
func (q request) isAwaited(now time.Time) bool {
	return q.n > 0 && !q.bell && now.Sub(q.sent) < awaitTime
}

func newRounds(t *tracker, conn *Conn, inbox string, w weights, atOnce int) *rounds {
	n := len(w)
	return &rounds{
		turns: turns{deficit: make([]float64, n)}, t: t, conn: conn, weights: w, atOnce: atOnce, inbox: inbox,
		requests: make([]request, n), probes: n, left: make([]int, n), here: make([]int, n), signs: noPart, began: time.Now(),
	}
}

// replies returns the subject of the ends of all requests.
func (r *rounds) replies() string { return r.inbox + ".>" }

// ask asks the partitions: with bells, and for as many messages as there are
// places, but for a few seldom.
func (r *rounds) ask() (again time.Duration, err error) {
	now := time.Now()
	r.sweep(now)
	free := r.t.spaces(r.here) - r.granted
	for part, q := range r.requests {
		if q.n == 0 && r.left[part] == 0 && (free > 0 || r.here[part] == 0) {
			if err := r.request(part, request{n: 1, bell: true, probe: q.number == 0}, now); err != nil {
				return 0, err
			}
		}
	}
	if free <= 0 || !r.anyLeft() {
		return 0, nil
	}
	if since := now.Sub(r.began); r.probes > 0 && since < settleTime {
		return settleTime - since, nil
	}
	if since := now.Sub(r.sent); free < r.t.most/4 && since < smallPull {
		return smallPull - since, nil
	}
	for part, n := range r.deal(free, now) {
		if n == 0 {
			continue
		}
		r.sent = now
		if err := r.request(part, request{n: n}, now); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// room returns how many messages a partition may be asked for.
func (r *rounds) room(part int) int {
	switch {
	case r.requests[part].n > 0:
		return 0
	case r.atOnce > 0:
		return min(r.left[part], r.atOnce-r.here[part])
	default:
		return r.left[part]
	}
}

func (r *rounds) anyLeft() bool {
	for part := range r.left {
		if r.room(part) > 0 {
			return true
		}
	}
	return false
}

// deal deals places out to partitions.
func (r *rounds) deal(places int, now time.Time) []int {
	dealt := make([]int, len(r.left))
	has := func(part int) bool { return r.left[part]-r.requests[part].n > dealt[part] }
	may := func(part int) bool { return r.room(part) > dealt[part] }
	awaited := func(part int) bool { return r.requests[part].isAwaited(now) }
	for range places {
		part := r.next(has, may, awaited, r.weights.of)
		if part < 0 {
			break
		}
		dealt[part]++
	}
	return dealt
}

// request asks a partition for messages.
func (r *rounds) request(part int, q request, now time.Time) error {
	body, wait := map[string]any{"batch": q.n}, grantTime
	switch {
	case q.probe:
		body["no_wait"] = true
	case q.bell:
		if wait = pullTime; r.signs == noPart {
			r.signs, body["idle_heartbeat"] = part, beatTime
		}
		body["expires"] = wait
	default:
		body["no_wait"], body["expires"], body["max_bytes"] = true, wait, pullBytes+r.conn.nc.MaxPayload()
		r.granted += q.n
	}
	r.last++
	q.sent, q.until, q.number = now, now.Add(wait+lapse), r.last
	r.requests[part] = q
	return r.conn.pull(r.t.names.stream, consumerOf(part), fmt.Sprintf("%s.%d.%d", r.inbox, part, q.number), body)
}

// sweep ends requests of whose end the server has said nothing.
func (r *rounds) sweep(now time.Time) {
	if now.Sub(r.swept) < time.Second {
		return
	}
	r.swept = now
	for part, q := range r.requests {
		if q.n > 0 && now.After(q.until) {
			r.over(part)
		}
	}
}

// over forgets the request of a partition.
func (r *rounds) over(part int) {
	switch q := &r.requests[part]; {
	case q.probe:
		r.probes--
		q.probe = false
	case !q.bell:
		r.granted -= q.n
	}
	r.requests[part].n = 0
	if r.signs == part {
		r.signs = noPart
	}
}

// delivered counts a message. One of a request that counts as lost is taken for
// one of the present request.
func (r *rounds) delivered(m *natsgo.Msg) {
	meta, err := m.Metadata()
	if err != nil {
		return
	}
	part := partOf(meta.Consumer)
	if part < 0 || part >= len(r.left) {
		return
	}
	r.left[part] = int(min(meta.NumPending, math.MaxInt32))
	q := &r.requests[part]
	if q.n == 0 {
		return
	}
	q.arrived = true
	if q.n--; q.bell {
		r.charge(part)
	} else {
		r.granted--
	}
	if q.n == 0 {
		r.over(part)
	}
}

// about returns the partition of the request that a message is about, and
// whether this is the present one.
func (r *rounds) about(m *natsgo.Msg) (part int, present bool) {
	var number uint64
	_, err := fmt.Sscanf(strings.TrimPrefix(m.Subject, r.inbox), ".%d.%d", &part, &number)
	if err != nil || part < 0 || part >= len(r.requests) {
		return 0, false
	}
	return part, r.requests[part].n > 0 && r.requests[part].number == number
}

func (r *rounds) ended(m *natsgo.Msg, tooLarge bool) {
	part, present := r.about(m)
	if !present {
		return
	}
	q := r.requests[part]
	r.over(part)
	if !q.bell && (!tooLarge || !q.arrived) { // a bell takes a message of any size
		r.left[part] = 0
	}
}

func (r *rounds) consumer(m *natsgo.Msg) string {
	part, _ := r.about(m)
	return consumerOf(part)
}

func (r *rounds) waits() bool { return r.signs != noPart }
