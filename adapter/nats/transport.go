package nats

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/golda-dev/golda/coordination/transport"
)

// TransportConfig configures [NewTransport]. Its zero value is ready for use.
type TransportConfig struct {
	// MaxQueue is how many bytes may wait, to be sent to one node, or to be
	// delivered here. If there are more the node is lost, or those whose
	// messages were dropped. A message that is larger is refused. 0 means 64
	// MiB.
	MaxQueue int

	// Heartbeat is how often a node shows the nodes with which it has a session
	// that it lives. A node that was not heard of for three times as long is
	// lost, and one whose connection to the server has ended after one
	// heartbeat, or when something is sent to it. 0 means a second, 10 ms is
	// the least and 24 hours are the most.
	Heartbeat time.Duration

	// Logger gets that the server is away and back, that another program has
	// taken the node's name, and that a claim to it is ignored. nil means
	// nothing is logged.
	Logger *slog.Logger
}

// The defaults of a TransportConfig.
const (
	defaultMaxQueue  = 64 << 20
	defaultHeartbeat = time.Second
	leastHeartbeat   = 10 * time.Millisecond
	mostHeartbeat    = 24 * time.Hour
)

func (c TransportConfig) check(node string) error {
	var errs []error
	if !validName.MatchString(node) {
		errs = append(errs, errors.New("the name must be of 1 to 64 letters, digits, - and _"))
	}
	if c.MaxQueue < 0 {
		errs = append(errs, fmt.Errorf("MaxQueue is %d; use 0 for 64 MiB", c.MaxQueue))
	}
	if c.Heartbeat != 0 && (c.Heartbeat < leastHeartbeat || c.Heartbeat > mostHeartbeat) {
		errs = append(errs, fmt.Errorf("the Heartbeat is %v, and must be from 10ms to 24h; use 0 for a second", c.Heartbeat))
	}
	return errors.Join(errs...)
}

// NewTransport returns a transport by which a node of package rpc calls, and is
// called by, the nodes of all programs that are connected to the same servers:
//
//	tr, err := nats.NewTransport(conn, "ocr-1", nats.TransportConfig{})
//	node, err := rpc.NewNode(rpc.Config{Transport: tr})
//
// The name of a node is of letters, digits, - and _, and belongs to one program
// at a time: Serve, and so rpc.NewNode, fails with [ErrTaken] if another one
// has it. A program that stands still, or that no server reaches, for three
// heartbeats may lose its name to another: when it is back it notices that, and
// its transport is closed. Of two programs with one name the newer keeps it, if
// it answers when the older asks: a message that claims the name, and for which
// no program answers, closes nothing.
//
// Messages are subjects of core NATS, golda.node.RECEIVER.SENDER, and are not
// stored. A node needs the permission to subscribe to golda.node.NAME.* and to
// its inbox, which is _INBOX_USER.> by default, see [Connect], and to publish
// to golda.node.*.NAME and the inboxes of the other nodes, by which programs
// agree on a name: Serve fails if it cannot hear itself. A message that is
// larger than the server takes is refused with transport.ErrTooLarge.
//
// When the connection to the server breaks all nodes are lost, and until it is
// back calls fail at once. Close the node before the Conn.
func NewTransport(conn *Conn, node string, cfg TransportConfig) (transport.Transport, error) {
	if conn == nil {
		return nil, errors.New("nats: NewTransport without a Conn")
	}
	if err := cfg.check(node); err != nil {
		return nil, fmt.Errorf("nats: node %.128q: %w", node, err)
	}
	setDefault(&cfg.MaxQueue, defaultMaxQueue)
	setDefault(&cfg.Heartbeat, defaultHeartbeat)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	t := &nodes{
		nc: conn.nc, denials: conn.denials, cfg: cfg, prefix: subjectOf(node, ""),
		claims: make(chan struct{}, 1), rivals: make(chan struct{}, 1), changed: make(chan struct{}, 1),
	}
	t.life, t.end = context.WithCancel(context.Background())
	t.peers = newPeers(node, cfg.MaxQueue, cfg.Heartbeat, time.Now, t.publish)
	return t, nil
}

// nodes is the transport of one node to others over core NATS.
type nodes struct {
	nc      *natsgo.Conn
	denials *denials
	cfg     TransportConfig
	prefix  string // of the subjects of messages to this node
	peers   *peers
	work    sync.WaitGroup
	life    context.Context // until Close
	end     context.CancelFunc

	birth   uint64        // when the name was claimed: of two programs that have it the newer one keeps it
	claims  chan struct{} // has an element when the node has heard its own claim
	rivals  chan struct{} // has an element when the node has heard a newer claim
	changed chan struct{} // has an element when the connection's status has changed
	status  chan natsgo.Status

	serving sync.Mutex // held by Serve; guards sub
	sub     *natsgo.Subscription

	receiving sync.Mutex // held while a message is handled

	mu        sync.Mutex // guards the rest
	broken    bool       // the connection has been broken since it was looked at last
	connected bool
}

// subjectOf returns the subject of messages to a node from another. The server
// can be told which node may use it as sender.
func subjectOf(to, from string) string { return "golda.node." + to + "." + from }

// Node returns the name of this node.
func (t *nodes) Node() string { return t.peers.node }

// Serve claims the name of the node and starts the delivery.
func (t *nodes) Serve(deliver func(from string, m *transport.Message)) error {
	if err := t.serve(deliver); err != nil {
		return fmt.Errorf("nats: node %q: %w", t.Node(), err)
	}
	return nil
}

func (t *nodes) serve(deliver func(from string, m *transport.Message)) error {
	if deliver == nil {
		return errors.New("Serve without a function")
	}
	t.serving.Lock()
	defer t.serving.Unlock()
	if err := t.peers.errClosed(); err != nil {
		return err
	}
	if err := t.claim(); err != nil {
		return err
	}
	t.birth = uint64(time.Now().UnixNano())&^0xfff | rand.Uint64N(1<<12)
	t.peers.deliver = deliver
	t.peers.setMaxPayload(int(t.nc.MaxPayload()))
	t.status = t.nc.StatusChanged(natsgo.CONNECTED, natsgo.RECONNECTING, natsgo.DISCONNECTED, natsgo.CLOSED)
	if err := t.subscribe(); err != nil {
		t.nc.RemoveStatusListener(t.status)
		return err
	}
	t.work.Go(t.peers.write)
	t.work.Go(t.tend)
	t.work.Go(t.follow)
	t.work.Go(t.defend)
	return nil
}

// claim asks whether another program has the name. It asks again, since one
// that is being closed does not answer.
func (t *nodes) claim() error {
	for range silences {
		if !t.nc.IsConnected() {
			return errAway
		}
		_, holder, err := t.ask()
		closed := t.peers.errClosed()
		switch {
		case err == nil:
			return fmt.Errorf("%w: %s", ErrTaken, holder)
		case closed != nil:
			return closed
		case errors.Is(err, natsgo.ErrNoResponders):
			return nil
		case !errors.Is(err, context.DeadlineExceeded):
			return fmt.Errorf("%w: %w", errAway, err)
		}
	}
	if !t.nc.IsConnected() {
		return errAway
	}
	return nil // the program that has it stands still
}

// ask asks for another program that has the name of this node: since when, and
// which process it is. The error is the error of a request.
func (t *nodes) ask() (birth uint64, holder []byte, err error) {
	ctx, cancel := context.WithTimeout(t.life, t.cfg.Heartbeat)
	defer cancel()
	answer, err := t.nc.RequestWithContext(ctx, subjectOf(t.Node(), t.Node()), t.claimed())
	if err != nil {
		return 0, nil, err
	}
	h, holder, ok := parse(answer.Data)
	if !ok || h.kind != kindClaim {
		return 0, answer.Data, nil
	}
	return h.from, holder, nil
}

// errAway is the reason for the loss of all nodes when the connection to the
// server is broken.
var errAway = fmt.Errorf("%w: %w", transport.ErrUnreachable, ErrAway)

// claimed returns the message that says that the name belongs to this program.
// Before Serve it is older than all others.
func (t *nodes) claimed() []byte { return header{kind: kindClaim, from: t.birth}.bytes("") }

// subscribe subscribes to the messages for the node, and waits until it hears
// its own claim: then the server knows it, and permits it.
func (t *nodes) subscribe() error {
	denied := make(chan *denial, 1)
	defer t.denials.listen(func(now *denial) {
		if now.exact != t.prefix+"*" && now.exact != subjectOf(t.Node(), t.Node()) {
			return
		}
		select {
		case denied <- now:
		default:
		}
	})()
	sub, err := t.nc.Subscribe(t.prefix+"*", t.receive)
	if err != nil {
		return err
	}
	if err = errors.Join(sub.SetPendingLimits(-1, t.cfg.MaxQueue), t.publish(t.Node(), t.claimed())); err == nil {
		err = t.hearItself(denied)
	}
	if err != nil {
		return errors.Join(err, sub.Unsubscribe())
	}
	t.sub = sub
	return nil
}

// serveTime is how long the server may take to answer a node that begins.
const serveTime = 30 * time.Second

// hearItself waits until the node hears its own claim, or the server denies the
// claim or the subscription.
func (t *nodes) hearItself(denied <-chan *denial) error {
	if err := t.nc.FlushTimeout(serveTime); err != nil {
		return fmt.Errorf("the server has not answered within %v that it has the subscription to %s*: %w", serveTime, t.prefix, err)
	}
	if t.nc.Opts.NoEcho {
		return nil
	}
	var err error
	select {
	case <-t.claims:
		return nil
	case <-t.life.Done():
		return t.peers.errClosed()
	case now := <-denied:
		err = now
	case <-time.After(serveTime):
		err = natsgo.ErrTimeout
	}
	return fmt.Errorf("it does not hear what it publishes to %s: %w", subjectOf(t.Node(), t.Node()), err)
}

// publish sends a message to a node. The server answers if it has no
// subscription of the node.
func (t *nodes) publish(node string, data []byte) error {
	return t.nc.PublishRequest(subjectOf(node, t.Node()), t.prefix+node, data)
}

// receive handles a message for this node.
func (t *nodes) receive(m *natsgo.Msg) {
	t.receiving.Lock()
	defer t.receiving.Unlock()
	if t.peers.errClosed() != nil {
		return
	}
	from := strings.TrimPrefix(m.Subject, t.prefix)
	switch {
	case from == t.Node():
		t.contest(m)
	case len(m.Data) == 0 && m.Header.Get("Status") == "503":
		t.peers.absent(from)
	default:
		t.peers.receive(from, m.Data)
	}
}

// contest answers a program that wants the name of this node, or has it, too.
func (t *nodes) contest(m *natsgo.Msg) {
	h, _, ok := parse(m.Data)
	switch {
	case !ok || h.kind != kindClaim:
	case h.from == t.birth:
		ring(t.claims)
	case m.Reply != t.prefix+t.Node(): // it asks
		host, _ := os.Hostname()
		_ = m.Respond(fmt.Appendf(t.claimed(), "process %d on %s", os.Getpid(), host))
	case h.from > t.birth:
		ring(t.rivals)
	}
}

// defend asks for the program behind each newer claim, and closes the node if
// it answers. A message that was damaged, or invented, has no program that
// answers for it.
func (t *nodes) defend() {
	var warned time.Time
	for {
		select {
		case <-t.peers.done:
			return
		case <-t.rivals:
		}
		birth, holder, err := t.ask()
		switch {
		case err == nil && birth > t.birth:
			t.giveWay(holder)
		case time.Since(warned) > claimPause && t.peers.errClosed() == nil:
			warned = time.Now()
			t.cfg.Logger.Warn("nats: a claim to the name of this node is ignored: no newer program answers for it", "node", t.Node())
		}
	}
}

// claimPause is the least time between two warnings of claims that are ignored.
const claimPause = time.Minute

// giveWay closes the node because another program has its name.
func (t *nodes) giveWay(holder []byte) {
	if t.peers.close(fmt.Errorf("%w: another program has the name of node %s: %s", transport.ErrUnreachable, t.Node(), holder)) {
		t.cfg.Logger.Error("nats: another program has taken the name of this node", "node", t.Node(), "holder", string(holder))
	}
	_ = t.sub.Unsubscribe()
}

// tend keeps the sessions alive and watches the connection.
func (t *nodes) tend() {
	tick := time.NewTicker(t.cfg.Heartbeat / 2)
	defer tick.Stop()
	for due := false; ; due = !due {
		select {
		case <-t.peers.done:
			return
		case <-t.changed:
			t.look()
			continue
		case <-tick.C:
		}
		t.peers.check(due)
		if due {
			t.peers.post(t.Node(), t.claimed())
		}
	}
}

// follow notes how the status of the connection changes. It waits for nothing
// else, since the connection waits for no listener: it drops the changes for
// which the channel has no place. So each change that is read is a reason to
// look at the connection itself.
func (t *nodes) follow() {
	for reconnects := t.nc.Stats().Reconnects; ; {
		s, more := <-t.status
		if !more {
			return
		}
		now := t.nc.Stats().Reconnects // waits until the connection has finished the change
		t.mu.Lock()
		t.connected = t.nc.IsConnected()
		t.broken = t.broken || !t.connected || s != natsgo.CONNECTED || now != reconnects
		t.mu.Unlock()
		reconnects = now
		ring(t.changed)
	}
}

// look handles a change of the connection's status.
func (t *nodes) look() {
	t.mu.Lock()
	broken, connected := t.broken, t.connected
	t.broken = false
	t.mu.Unlock()
	if broken {
		t.cfg.Logger.Warn("nats: the server is away", "node", t.Node(), "status", t.nc.Status().String())
		t.peers.setAway(errAway)
	}
	if connected {
		t.cfg.Logger.Info("nats: the server is back", "node", t.Node())
		t.peers.setMaxPayload(int(t.nc.MaxPayload()))
		t.peers.setAway(nil)
	}
}

// ring wakes the goroutine that waits for a bell.
func ring(bell chan struct{}) {
	select {
	case bell <- struct{}{}:
	default:
	}
}

// Send queues a message for a node.
func (t *nodes) Send(node string, m *transport.Message) error {
	data, err := transport.Encode(m)
	if err != nil {
		return err
	}
	if node == t.Node() {
		return t.sendSelf(data)
	}
	return t.peers.send(node, data)
}

func (t *nodes) sendSelf(data []byte) error {
	if err := t.peers.errClosed(); err != nil {
		return err
	}
	m, err := transport.Decode(data)
	if err == nil {
		t.peers.deliver(t.Node(), m)
	}
	return err
}

// Watch has lost called when the node is lost.
func (t *nodes) Watch(node string, lost func(error)) (stop func()) { return t.peers.watch(node, lost) }

// Close waits for the functions that the transport calls, so these must not
// call it. It ends a Serve that is under way.
func (t *nodes) Close() error {
	t.peers.close(errTransportClosed)
	t.end()
	t.serving.Lock()
	defer t.serving.Unlock()
	if t.sub == nil {
		return nil
	}
	t.nc.RemoveStatusListener(t.status)
	t.work.Wait()
	if err := t.sub.Unsubscribe(); err == nil && t.nc.IsConnected() {
		_ = t.nc.FlushTimeout(flushTime) // the server forgets the node, or else when the connection ends
	}
	t.receiving.Lock() // earlier messages have been handled, and later ones are not
	defer t.receiving.Unlock()
	return nil
}

// flush waits until all sent messages are published, or ctx ends.
func (t *nodes) flush(ctx context.Context) {
	select {
	case <-t.peers.flushed():
	case <-ctx.Done():
	}
}
