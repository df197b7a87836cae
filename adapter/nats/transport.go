package nats

import (
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
	// MaxQueue is how many bytes may wait, to be sent to one node, or to be delivered here. If there are more the node is lost, or those
	// whose messages were dropped. 0 means 64 MiB.
	MaxQueue int

	// Heartbeat is how often a node shows to those that it has to do with that it lives. A node that was not heard of for three times as
	// long is lost, and one whose connection to the server has ended after one heartbeat, or when something is sent to it. 0 means a
	// second, and 10 ms is the least.
	Heartbeat time.Duration

	// Logger gets that the server is away and back, and that another program has taken the node's name. nil means nothing is logged.
	Logger *slog.Logger
}

// The defaults of a TransportConfig.
const (
	defaultMaxQueue  = 64 << 20
	defaultHeartbeat = time.Second
	leastHeartbeat   = 10 * time.Millisecond
)

func (c TransportConfig) check(node string) error {
	var errs []error
	if !validName.MatchString(node) {
		errs = append(errs, errors.New("the name must be of 1 to 64 letters, digits, - and _"))
	}
	if c.MaxQueue < 0 {
		errs = append(errs, fmt.Errorf("MaxQueue is %d; use 0 for 64 MiB", c.MaxQueue))
	}
	if c.Heartbeat != 0 && c.Heartbeat < leastHeartbeat {
		errs = append(errs, fmt.Errorf("the Heartbeat is %v, and must be at least %v; use 0 for a second", c.Heartbeat, leastHeartbeat))
	}
	return errors.Join(errs...)
}

// NewTransport returns a transport by which a node of package rpc calls, and is called by, the nodes of all programs that are connected to
// the same servers:
//
//	tr, err := nats.NewTransport(conn, "ocr-1", nats.TransportConfig{})
//	node, err := rpc.NewNode(rpc.Config{Transport: tr})
//
// The name of a node is of letters, digits, - and _, and belongs to one program at a time: Serve, and so rpc.NewNode, fails with
// [ErrTaken] if another one has it. A program that stands still, or that no server reaches, for three heartbeats may lose its name to
// another: when it is back it notices that, and its transport is closed.
//
// Messages are subjects of core NATS, golda.node.RECEIVER.SENDER, and are not stored. A node needs the permission to subscribe to
// golda.node.NAME.* and _INBOX.>, and to publish to golda.node.*.NAME and _INBOX.>, by which
// programs agree on a name. A message that is larger than the server takes is refused with transport.ErrTooLarge.
//
// When the connection to the server breaks all nodes are lost, and until it is back calls fail at once. Close the node before the Conn.
func NewTransport(conn *Conn, node string, cfg TransportConfig) (transport.Transport, error) {
	if conn == nil {
		return nil, errors.New("nats: NewTransport without a Conn")
	}
	if err := cfg.check(node); err != nil {
		return nil, fmt.Errorf("nats: node %q: %w", node, err)
	}
	setDefault(&cfg.MaxQueue, defaultMaxQueue)
	setDefault(&cfg.Heartbeat, defaultHeartbeat)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	t := &nodes{nc: conn.nc, cfg: cfg, prefix: subjectOf(node, "")}
	t.peers = newPeers(node, cfg.MaxQueue, cfg.Heartbeat, time.Now, t.publish)
	return t, nil
}

// nodes is the transport of one node to others over core NATS.
type nodes struct {
	nc     *natsgo.Conn
	cfg    TransportConfig
	prefix string // of the subjects of messages to this node
	birth  uint64 // when the name was claimed: of two programs that have it the newer one keeps it
	sub    *natsgo.Subscription
	ended  chan struct{} // the subscription has ended
	status chan natsgo.Status
	work   sync.WaitGroup

	peers *peers
}

// subjectOf returns the subject of messages to a node from another. The server can be told which node may use it as sender.
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
	return nil
}

// claim asks whether another program has the name.
func (t *nodes) claim() error {
	if !t.nc.IsConnected() {
		return errAway
	}
	answer, err := t.nc.Request(subjectOf(t.Node(), t.Node()), header{kind: kindClaim}.bytes(""), t.peers.patience)
	switch {
	case err == nil:
		return fmt.Errorf("%w: %s", ErrTaken, answer.Data)
	case errors.Is(err, natsgo.ErrNoResponders):
		return nil
	case errors.Is(err, natsgo.ErrTimeout) && t.nc.IsConnected(): // the program that has it stands still
		return nil
	default:
		return fmt.Errorf("%w: %w", errAway, err)
	}
}

// errAway is the reason for the loss of all nodes when the connection to the server is broken.
var errAway = fmt.Errorf("%w: %w", transport.ErrUnreachable, ErrAway)

// claimed returns the message that says that the name belongs to this program.
func (t *nodes) claimed() []byte { return header{kind: kindClaim, from: t.birth}.bytes("") }

func (t *nodes) subscribe() error {
	sub, err := t.nc.Subscribe(t.prefix+"*", t.receive)
	if err != nil {
		return err
	}
	t.sub, t.ended = sub, make(chan struct{})
	sub.SetClosedHandler(func(string) { close(t.ended) })
	err = errors.Join(sub.SetPendingLimits(-1, t.cfg.MaxQueue), t.publish(t.Node(), t.claimed()))
	if err == nil {
		err = t.nc.FlushTimeout(flushTime) // the server knows the node
	}
	if err != nil {
		return errors.Join(err, sub.Unsubscribe())
	}
	return nil
}

// publish sends a message to a node. The server answers if it has no subscription of the node.
func (t *nodes) publish(node string, data []byte) error {
	return t.nc.PublishRequest(subjectOf(node, t.Node()), t.prefix+node, data)
}

// receive handles what comes for this node.
func (t *nodes) receive(m *natsgo.Msg) {
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
	case !ok || h.kind != kindClaim || h.from == t.birth:
	case m.Reply != t.prefix+t.Node(): // it asks
		host, _ := os.Hostname()
		_ = m.Respond(fmt.Appendf(nil, "process %d on %s", os.Getpid(), host))
	case h.from > t.birth:
		if t.peers.close(fmt.Errorf("%w: another program has the name of node %s", transport.ErrUnreachable, t.Node())) {
			t.cfg.Logger.Error("nats: another program has taken the name of this node", "node", t.Node())
		}
		_ = m.Sub.Unsubscribe()
	}
}

// tend keeps the sessions alive and watches the connection.
func (t *nodes) tend() {
	tick := time.NewTicker(t.cfg.Heartbeat / 2)
	defer tick.Stop()
	for due := false; ; due = !due {
		select {
		case <-t.peers.done:
			return
		case s := <-t.status:
			t.connection(s)
			continue
		case <-tick.C:
		}
		t.peers.check(due)
		if due {
			t.peers.post(t.Node(), t.claimed())
		}
	}
}

// connection handles a change of the connection's status.
func (t *nodes) connection(s natsgo.Status) {
	if s == natsgo.CONNECTED {
		t.cfg.Logger.Info("nats: the server is back", "node", t.Node())
		t.peers.setMaxPayload(int(t.nc.MaxPayload()))
		t.peers.setAway(nil)
		return
	}
	t.cfg.Logger.Warn("nats: the server is away", "node", t.Node(), "status", s.String())
	t.peers.setAway(errAway)
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

// Close waits for the functions that the transport calls, so these must not call it.
func (t *nodes) Close() error {
	t.peers.close(errTransportClosed)
	t.work.Wait()
	if t.sub == nil {
		return nil
	}
	t.nc.RemoveStatusListener(t.status)
	if err := t.sub.Unsubscribe(); err == nil && t.nc.IsConnected() {
		_ = t.nc.FlushTimeout(flushTime) // the server forgets the node, or else when the connection ends
	}
	<-t.ended
	return nil
}
