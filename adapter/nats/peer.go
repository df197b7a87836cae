package nats

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/golda-dev/golda/coordination/transport"
)

// peers are the other nodes of one node, over a network that may lose messages:
// it keeps the order of the messages from one sender to one receiver, and no
// more. A lost message ends the session with that node.
type peers struct {
	node      string
	maxQueue  int           // bytes that may wait for one node
	heartbeat time.Duration // how often a session shows that it lives
	patience  time.Duration // how long it may be silent
	now       func() time.Time
	publish   func(node string, data []byte) error // does not keep data
	deliver   func(from string, m *transport.Message)

	bell chan struct{} // there is something to publish
	done chan struct{} // is closed when nothing more is to come

	buffer []byte // of the goroutine that publishes

	mu         sync.Mutex // guards the fields below, and the fields of each peer that do not say otherwise
	closed     error      // why no session can begin any more
	away       error      // why none can for now
	maxPayload int
	of         map[string]*peer // by the name of the other node
	checked    time.Time        // when the silences were looked at last
	self       notices
	control    []control
	ready      []*peer // have something to publish
	flushes    []chan struct{}
}

// peer is another node, from the first message to it, or from it, until it is
// lost: a session. Each of the two nodes gives it an id. A message belongs to a
// session if it has both ids, and the messages of a session are counted: so a
// missing message is noticed.
type peer struct {
	node    string
	id      uint64
	remote  uint64 // its id at the other node; 0 until that has answered
	heard   time.Time
	queue   [][]byte // wait to be published
	queued  int      // bytes
	beat    bool     // a heartbeat is due
	isReady bool     // it is in the list of ready peers
	notices notices
	lost    error // why it is lost; nil if it is not

	received   uint64 // messages; written by the goroutine that receives
	delivering bool   // notices of a loss wait for the end of a delivery
	sent       uint64 // messages; belongs to the goroutine that publishes
}

// notices are calls of Watch.
type notices map[*notice]struct{}

type notice struct{ lost func(error) }

// control is a message to another node that belongs to no queue.
type control struct {
	node string
	data []byte
}

func newPeers(
	node string, maxQueue int, heartbeat time.Duration, now func() time.Time, publish func(node string, data []byte) error,
) *peers {
	return &peers{
		node: node, maxQueue: maxQueue, heartbeat: heartbeat, patience: time.Duration(silences) * heartbeat, now: now, publish: publish,
		bell: make(chan struct{}, 1), done: make(chan struct{}), of: map[string]*peer{}, self: notices{}, checked: now(),
	}
}

// silences is how many heartbeats may be missing. It is a variable for tests,
// which must not depend on the speed of the machine.
var silences = 3

const maxControl = 1 << 12 // control messages that wait

var errTransportClosed = fmt.Errorf("%w: the transport is closed", transport.ErrUnreachable)

// send queues a message for a node.
func (t *peers) send(node string, data []byte) error {
	t.mu.Lock()
	if err := t.tooLargeLocked(len(data)); err != nil {
		t.mu.Unlock()
		return err
	}
	p, err := t.peerLocked(node)
	if err != nil {
		t.mu.Unlock()
		return err
	}
	p.queue = append(p.queue, data)
	p.queued += len(data)
	if p.queued > t.maxQueue {
		err = fmt.Errorf("%w: node %s: %d bytes wait to be sent", transport.ErrUnreachable, node, p.queued)
	}
	t.readyLocked(p)
	t.mu.Unlock()
	if err != nil {
		t.lose(p, err, true)
	}
	return err
}

// tooLargeLocked returns an error for a message that can never be sent.
func (t *peers) tooLargeLocked(n int) error {
	switch most := t.maxPayload - maxHeader; {
	case n > most:
		return fmt.Errorf("%w: %d bytes, and the server takes %d", transport.ErrTooLarge, n, most)
	case n > t.maxQueue:
		return fmt.Errorf("%w: %d bytes, and the MaxQueue is %d", transport.ErrTooLarge, n, t.maxQueue)
	default:
		return nil
	}
}

// watch is the Watch of a transport.
func (t *peers) watch(node string, lost func(error)) (stop func()) {
	n := &notice{lost}
	t.mu.Lock()
	of, err := t.self, t.closed
	if node != t.node {
		var p *peer
		if p, err = t.peerLocked(node); err == nil {
			of = p.notices
		}
	}
	if err == nil {
		of[n] = struct{}{}
	}
	t.mu.Unlock()
	if err != nil {
		lost(err)
		return func() {}
	}
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(of, n)
	}
}

// peerLocked returns the session with a node. If there is none, it begins one.
func (t *peers) peerLocked(node string) (*peer, error) {
	switch {
	case t.closed != nil:
		return nil, t.closed
	case t.of[node] != nil:
		return t.of[node], nil
	case t.away != nil:
		return nil, t.away
	case !validName.MatchString(node):
		return nil, fmt.Errorf("%w: %q is not the name of a node", transport.ErrUnreachable, node)
	}
	p := t.addLocked(node)
	t.controlLocked(node, header{kind: kindHello, from: p.id}.bytes(""))
	return p, nil
}

func (t *peers) addLocked(node string) *peer {
	p := &peer{node: node, id: max(rand.Uint64(), 1), heard: t.now(), notices: notices{}}
	t.of[node] = p
	return p
}

// readyLocked has what a session has to send published.
func (t *peers) readyLocked(p *peer) {
	if p.isReady || p.remote == 0 || p.lost != nil {
		return
	}
	p.isReady = true
	t.ready = append(t.ready, p)
	t.wake()
}

// controlLocked has a control message published. If there are too many, it is
// lost, as it may be on its way.
func (t *peers) controlLocked(node string, data []byte) {
	if len(t.control) < maxControl {
		t.control = append(t.control, control{node, data})
	}
	t.wake()
}

// post has a control message published, unless the network is away.
func (t *peers) post(node string, data []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.away == nil {
		t.controlLocked(node, data)
	}
}

func (t *peers) wake() {
	ring(t.bell)
}

// receive handles a message from a node. It is called by one goroutine.
func (t *peers) receive(from string, data []byte) {
	h, rest, ok := parse(data)
	if !ok {
		return // of another protocol
	}
	switch h.kind {
	case kindHello:
		t.hello(from, h)
	case kindBye:
		t.loseIf(from, func(p *peer) bool { return p.id == h.to }, errors.New(string(rest)), false)
	case kindBeat, kindData:
		t.accept(from, h, rest)
	default: // of a newer version
	}
}

// absent ends the session with a node that the network knows not to be there.
func (t *peers) absent(node string) {
	t.loseIf(node, func(*peer) bool { return true }, errors.New("there is no such node"), false)
}

// hello begins a session with a node that has begun one, or has answered.
func (t *peers) hello(from string, h header) {
	t.loseIf(from, func(p *peer) bool { return p.remote != 0 && p.remote != h.from }, errors.New("it has begun anew"), false)
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.of[from]
	switch {
	case t.closed != nil:
		return
	case h.to != 0 && (p == nil || p.id != h.to): // an answer for a session that is lost
		t.controlLocked(from, header{kind: kindBye, to: h.from}.bytes(noSession))
		return
	case p == nil && !validName.MatchString(from):
		return // no node has that name
	case p == nil:
		p = t.addLocked(from)
	}
	p.remote, p.heard = h.from, t.now()
	if h.to == 0 {
		t.controlLocked(from, header{kind: kindHello, from: p.id, to: p.remote}.bytes(""))
	}
	t.readyLocked(p)
}

const noSession = "it has lost the session"

// accept handles a message of a session: a heartbeat, or one that has messages
// in it.
func (t *peers) accept(from string, h header, rest []byte) {
	t.mu.Lock()
	p := t.of[from]
	if p == nil || p.id != h.to || p.remote != h.from {
		t.controlLocked(from, header{kind: kindBye, to: h.from}.bytes(noSession))
		t.mu.Unlock()
		if p != nil && p.id == h.to {
			t.lose(p, errors.New("its answer was lost"), false)
		}
		return
	}
	p.heard = t.now()
	next := p.received
	if h.kind == kindData {
		next++
	}
	if h.count != next {
		t.mu.Unlock()
		t.lose(p, fmt.Errorf("messages were lost: number %d came, not %d", h.count, next), true)
		return
	}
	p.received, p.delivering = next, true
	t.mu.Unlock()
	if h.kind == kindData {
		t.deliverAll(p, rest)
	}
	t.mu.Lock()
	p.delivering = false
	lost := p.lost
	t.mu.Unlock()
	if lost != nil {
		t.notify(p.notices, lost)
	}
}

// deliverAll delivers the messages of one that has arrived, until the session
// is lost.
func (t *peers) deliverAll(p *peer, rest []byte) {
	for len(rest) > 0 {
		n, size := binary.Uvarint(rest)
		if size <= 0 || n > uint64(len(rest)-size) {
			t.lose(p, errors.New("malformed message"), true)
			return
		}
		m, err := transport.Decode(rest[size : size+int(n)])
		if err != nil {
			t.lose(p, err, true)
			return
		}
		t.deliver(p.node, m)
		if rest = rest[size+int(n):]; t.isLost(p) {
			return
		}
	}
}

func (t *peers) isLost(p *peer) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return p.lost != nil
}

// loseIf loses the session with a node, if there is one and it is meant.
func (t *peers) loseIf(node string, meant func(p *peer) bool, reason error, farewell bool) {
	t.mu.Lock()
	p := t.of[node]
	if p != nil && !meant(p) {
		p = nil
	}
	t.mu.Unlock()
	if p != nil {
		t.lose(p, reason, farewell)
	}
}

// lose ends a session and drops its unsent messages. If farewell is set, the
// other node is told.
func (t *peers) lose(p *peer, reason error, farewell bool) {
	if !errors.Is(reason, transport.ErrUnreachable) {
		reason = fmt.Errorf("%w: node %s: %w", transport.ErrUnreachable, p.node, reason)
	}
	t.mu.Lock()
	if p.lost != nil {
		t.mu.Unlock()
		return
	}
	p.lost = reason
	if t.of[p.node] == p {
		delete(t.of, p.node)
	}
	p.queue = nil
	if farewell && p.remote != 0 {
		t.controlLocked(p.node, header{kind: kindBye, to: p.remote}.bytes(noSession))
	}
	delivering := p.delivering
	t.mu.Unlock()
	if !delivering { // or else the end of the delivery notifies: nothing is delivered after the notice
		t.notify(p.notices, reason)
	}
}

// notify calls and removes notices.
func (t *peers) notify(all notices, reason error) {
	for {
		t.mu.Lock()
		var next *notice
		for next = range all {
			delete(all, next)
			break
		}
		t.mu.Unlock()
		if next == nil {
			return
		}
		next.lost(reason)
	}
}

// check ends the sessions with nodes that were silent for too long, and makes a
// heartbeat due for the others. It is called twice for each heartbeat. If more
// than one heartbeat has passed since the last call, the excess does not count
// as silence: this process stood still, and messages that arrived meanwhile
// have yet to be handled.
func (t *peers) check(due bool) {
	now := t.now()
	limit := t.patience - t.heartbeat/2
	var silent []*peer
	t.mu.Lock()
	if pause := now.Sub(t.checked) - t.heartbeat; pause > 0 {
		for _, p := range t.of {
			p.heard = p.heard.Add(min(pause, now.Sub(p.heard)))
		}
	}
	t.checked = now
	for _, p := range t.of {
		switch {
		case now.Sub(p.heard) >= limit:
			silent = append(silent, p)
		case due:
			p.beat = true
			t.readyLocked(p)
		}
	}
	t.mu.Unlock()
	for _, p := range silent {
		t.lose(p, fmt.Errorf("it does not answer since %v", now.Sub(p.heard).Round(time.Millisecond)), true)
	}
}

// setAway loses all sessions, because of a reason why none can begin for now.
// It is nil when they can.
func (t *peers) setAway(reason error) {
	t.mu.Lock()
	t.away = reason
	var all []*peer
	if reason != nil {
		all = t.allLocked()
		t.control = nil
	}
	t.mu.Unlock()
	for _, p := range all {
		t.lose(p, reason, false)
	}
}

func (t *peers) allLocked() (all []*peer) {
	for _, p := range t.of {
		all = append(all, p)
	}
	return all
}

func (t *peers) setMaxPayload(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.maxPayload = n
}

// close ends all sessions, for a reason that is ErrUnreachable. It reports
// whether they had not ended before.
func (t *peers) close(reason error) bool {
	t.mu.Lock()
	if t.closed != nil {
		t.mu.Unlock()
		return false
	}
	t.closed = reason
	all := t.allLocked()
	t.mu.Unlock()
	for _, p := range all {
		t.lose(p, reason, true)
	}
	t.notify(t.self, reason)
	close(t.done)
	return true
}

// errClosed returns why the sessions are closed, or nil.
func (t *peers) errClosed() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closed
}

// flushed returns a channel that is closed when all earlier messages to nodes
// with a session are published, or the sessions are closed.
func (t *peers) flushed() <-chan struct{} {
	done := make(chan struct{})
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed != nil {
		close(done)
		return done
	}
	t.flushes = append(t.flushes, done)
	t.wake()
	return done
}

// write publishes the messages of the ready peers, until the sessions are
// closed.
func (t *peers) write() {
	for closed := false; !closed; {
		select {
		case <-t.bell:
		case <-t.done:
			closed = true // what there is now is sent yet: farewells
		}
		t.writeAll()
	}
}

// writeAll publishes what there is now.
func (t *peers) writeAll() {
	t.mu.Lock()
	all, ready, flushes := t.control, t.ready, t.flushes
	t.control, t.ready, t.flushes = nil, nil, nil
	t.mu.Unlock()
	defer func() {
		for _, done := range flushes {
			close(done)
		}
	}()
	for _, c := range all {
		_ = t.publish(c.node, c.data) // it may be lost on its way as well
	}
	for _, p := range ready {
		t.flush(p)
	}
}

// flush publishes what a session has to send.
func (t *peers) flush(p *peer) {
	t.mu.Lock()
	queue, beat, lost, most := p.queue, p.beat, p.lost != nil, t.maxPayload
	h := header{kind: kindData, from: p.id, to: p.remote}
	p.queue, p.queued, p.beat, p.isReady = nil, 0, false, false
	t.mu.Unlock()
	if lost {
		return
	}
	var err error
	for len(queue) > 0 && err == nil {
		p.sent++
		h.count = p.sent
		t.buffer, queue = pack(h.append(t.buffer[:0]), queue, min(most, batch))
		err = t.publish(p.node, t.buffer)
	}
	if beat && err == nil {
		h.kind, h.count = kindBeat, p.sent
		t.buffer = h.append(t.buffer[:0])
		err = t.publish(p.node, t.buffer)
	}
	if err != nil {
		t.lose(p, err, true)
	}
	if cap(t.buffer) > largestBuffer {
		t.buffer = nil
	}
}

// pack appends as many messages as have room together, at least one, and
// returns the rest of them.
func pack(buffer []byte, queue [][]byte, most int) (packed []byte, rest [][]byte) {
	for i, m := range queue {
		if i > 0 && len(buffer)+binary.MaxVarintLen32+len(m) > most {
			return buffer, queue[i:]
		}
		buffer = binary.AppendUvarint(buffer, uint64(len(m)))
		buffer = append(buffer, m...)
	}
	return buffer, nil
}

const (
	batch         = 64 << 10 // messages are packed together up to this size
	largestBuffer = 1 << 20  // that is kept
)

// header begins every message between nodes.
type header struct {
	kind  byte
	from  uint64 // the session's id at the sender
	to    uint64 // and at the receiver; 0 if that is not known
	count uint64 // of the session's messages, with this one; a heartbeat is not counted
}

const (
	kindHello byte = iota + 1 // begins a session; with both ids, answers
	kindBye                   // the session of the receiver is lost; the rest of the message says why
	kindBeat
	kindData // the rest has messages, each behind its length
	kindClaim
)

const (
	version    = 1
	headerSize = 2 + 3*8
	maxHeader  = headerSize + binary.MaxVarintLen32 // of a message that is alone
)

func (h header) append(b []byte) []byte {
	b = append(b, version, h.kind)
	b = binary.BigEndian.AppendUint64(b, h.from)
	b = binary.BigEndian.AppendUint64(b, h.to)
	return binary.BigEndian.AppendUint64(b, h.count)
}

func (h header) bytes(text string) []byte {
	return append(h.append(make([]byte, 0, headerSize+len(text))), text...)
}

func parse(b []byte) (h header, rest []byte, ok bool) {
	if len(b) < headerSize || b[0] != version {
		return header{}, nil, false
	}
	return header{
		kind: b[1], from: binary.BigEndian.Uint64(b[2:]), to: binary.BigEndian.Uint64(b[10:]), count: binary.BigEndian.Uint64(b[18:]),
	}, b[headerSize:], true
}
