package transport

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"os"
	"strings"
	"time"
)

// Config configures the sockets of [Listen]. Its zero value is ready for a Unix
// socket; TCP needs Secret or Insecure.
//
// The limits bound the bytes, the time and the connections that a stranger, or
// a faulty node, may cost. Package rpc limits the requests under way for other
// nodes.
type Config struct {
	// Secret is shared by the nodes of a program: at least 16 bytes that cannot
	// be guessed: best 32 of a random generator. Two nodes that connect prove
	// to each other that they have it, and never send it. It is needed unless
	// the address is the path of a Unix socket, which the permissions of the
	// file protect, or Insecure is set.
	Secret []byte

	// Insecure does without a Secret: every program that can connect may call
	// all functions of this node, under any name that is not connected at the
	// time.
	Insecure bool

	// Peers reports whether a name belongs to a node to which this one may
	// connect. Nil allows all nodes of the same network, if there is a Secret
	// or they are Unix sockets. With Insecure nil allows none: such a node
	// answers nodes that connect to it, and Peers must allow more.
	Peers func(node string) bool

	// Advertise is the address at which other nodes reach this one, if that is
	// not the address given to Listen: as behind a gateway, or if this node
	// listens on all addresses of its machine.
	Advertise string

	// MaxMessage is the length of the longest message in bytes, for sending and
	// receiving: from 512 to 4 GiB less one. 0 means 16 MiB, or MaxQueue if
	// that is less. Memory for a message is taken as its bytes arrive.
	MaxMessage int

	// MaxQueue is how many bytes may wait to be sent to one node, at least
	// MaxMessage. If there are more, the node is lost: it does not read. 0
	// means 64 MiB, or MaxMessage if that is more.
	MaxQueue int

	// MaxArrival is how long a message may take to arrive, from its first byte
	// to its last, and how long two nodes may take to introduce themselves. A
	// connection that takes longer is closed. 0 means 15 s.
	MaxArrival time.Duration

	// MaxConns is how many connections that other nodes have made may be open.
	// A further node is refused. 0 means 1024.
	MaxConns int

	// MaxHellos is how many connections may be open whose nodes have not
	// introduced themselves. With a further one the oldest is closed. 0 means
	// 64.
	MaxHellos int

	// Heartbeat is how often a node that has nothing to send shows that it
	// lives, from 1 ms to a day. A node that was not heard of for three times
	// as long is lost. 0 means 5 s.
	Heartbeat time.Duration

	// Logger logs which connections were refused, at most once in ten seconds.
	// If it is nil it is slog.Default().
	Logger *slog.Logger
}

// The defaults of a Config, and the limits of its values.
const (
	defaultMaxMessage = 16 << 20
	defaultMaxQueue   = 64 << 20
	defaultMaxArrival = 15 * time.Second
	defaultMaxConns   = 1024
	defaultMaxHellos  = 64
	defaultHeartbeat  = 5 * time.Second
	silences          = 3 // heartbeats that may be missing

	minSecret    = 16
	minMessage   = 512 // the error of a call fits
	minHeartbeat = time.Millisecond
	maxTime      = 24 * time.Hour // three of them are far from the largest time.Duration
)

// complete returns the configuration with its defaults, or all that is wrong
// with it.
func (cfg Config) complete(network, address string) (Config, error) {
	err := errors.Join(cfg.checkTrust(network, address), cfg.checkNumbers())
	if cfg.MaxMessage == 0 {
		cfg.MaxMessage = min(defaultMaxMessage, cmp.Or(cfg.MaxQueue, math.MaxInt))
	}
	cfg.MaxQueue = cmp.Or(cfg.MaxQueue, max(defaultMaxQueue, cfg.MaxMessage))
	cfg.MaxArrival = cmp.Or(cfg.MaxArrival, defaultMaxArrival)
	cfg.MaxConns = cmp.Or(cfg.MaxConns, defaultMaxConns)
	cfg.MaxHellos = cmp.Or(cfg.MaxHellos, defaultMaxHellos)
	cfg.Heartbeat = cmp.Or(cfg.Heartbeat, defaultHeartbeat)
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Peers == nil {
		any := !cfg.Insecure
		cfg.Peers = func(string) bool { return any }
	}
	return cfg, err
}

// checkTrust returns an error if the Config does not say how nodes prove that
// they belong together.
func (cfg Config) checkTrust(network, address string) error {
	switch {
	case networkKind(network) == "":
		return fmt.Errorf("transport: Listen: the network %.16q is none of tcp, tcp4, tcp6, unix", network)
	case len(address) > maxNode:
		return fmt.Errorf("transport: Listen: the address has %d bytes, the most is %d", len(address), maxNode)
	case len(cfg.Secret) > 0 && cfg.Insecure:
		return errors.New("transport: Config has a Secret and is Insecure: it can be one of the two")
	case cfg.Insecure:
		return nil
	case len(cfg.Secret) == 0 && isFile(network, address):
		return nil
	case len(cfg.Secret) == 0:
		return fmt.Errorf("transport: Listen on %s:%s: Config needs a Secret, which all nodes share, or Insecure:"+
			" every program that reaches this address could call all functions of the node", network, address)
	case len(cfg.Secret) < minSecret:
		return fmt.Errorf("transport: Config.Secret has %d bytes, the least is %d", len(cfg.Secret), minSecret)
	}
	return nil
}

// checkNumbers returns which limits are out of their range.
func (cfg Config) checkNumbers() (err error) {
	fault := func(wrong bool, format string, args ...any) {
		if wrong {
			err = errors.Join(err, fmt.Errorf("transport: Config."+format, args...))
		}
	}
	fault(cfg.MaxMessage != 0 && (cfg.MaxMessage < minMessage || uint64(cfg.MaxMessage) > math.MaxUint32),
		"MaxMessage is %d bytes: it must be from %d to %d", cfg.MaxMessage, minMessage, uint32(math.MaxUint32))
	least := max(cfg.MaxMessage, minMessage)
	fault(cfg.MaxQueue != 0 && cfg.MaxQueue < least, "MaxQueue is %d bytes: it must hold a message of %d", cfg.MaxQueue, least)
	fault(cfg.MaxConns < 0, "MaxConns is negative: %d", cfg.MaxConns)
	fault(cfg.MaxHellos < 0, "MaxHellos is negative: %d", cfg.MaxHellos)
	fault(cfg.Heartbeat != 0 && (cfg.Heartbeat < minHeartbeat || cfg.Heartbeat > maxTime),
		"Heartbeat is %v: it must be from %v to %v", cfg.Heartbeat, minHeartbeat, maxTime)
	fault(cfg.MaxArrival != 0 && (cfg.MaxArrival < minHeartbeat || cfg.MaxArrival > maxTime),
		"MaxArrival is %v: it must be from %v to %v", cfg.MaxArrival, minHeartbeat, maxTime)
	return err
}

// networkKind returns the prefix that the names of all nodes of a network have,
// or "".
func networkKind(network string) string {
	switch network {
	case "tcp", "tcp4", "tcp6":
		return "tcp"
	case "unix":
		return "unix"
	default:
		return ""
	}
}

// isFile reports whether an address is a Unix socket that is a file. The
// abstract ones of Linux have no permissions.
func isFile(network, address string) bool {
	return network == "unix" && address != "" && address[0] != '@' && address[0] != 0
}

// maxNode is the length of the longest name of a node.
const maxNode = 512

// checkNode returns the two parts of the name of a node of the network, or an
// error if the name cannot belong to one.
func checkNode(kind, node string) (network, address string, err error) {
	network, address, ok := strings.Cut(node, ":")
	switch {
	case !ok || networkKind(network) == "" || address == "" || strings.ContainsFunc(node, isBad):
		return "", "", fmt.Errorf("%w: %q is not the name of a node", ErrUnreachable, node[:min(len(node), maxNode)])
	case len(node) > maxNode:
		return "", "", fmt.Errorf("%w: the name of a node has %d bytes, the most is %d", ErrUnreachable, len(node), maxNode)
	case networkKind(network) != kind:
		return "", "", fmt.Errorf("%w: %q is not a node of this network: %s", ErrUnreachable, node, kind)
	}
	return network, address, nil
}

// isBad reports whether a character cannot be in the name of a node: '#' ends
// it in the address of a process.
func isBad(r rune) bool { return r < ' ' || r == '#' || r == 0x7f || r == '�' }

// listen listens, and returns the name of the node.
func listen(network, address string, cfg Config) (net.Listener, string, error) {
	l, err := net.Listen(network, address) //nolint:noctx // it does not block
	if err != nil {
		return nil, "", fmt.Errorf("transport: %w", err)
	}
	if isFile(network, address) {
		if err := os.Chmod(address, 0o600); err != nil {
			_ = l.Close()
			return nil, "", fmt.Errorf("transport: %w", err)
		}
	}
	at := l.Addr().String()
	if cfg.Advertise != "" {
		at = cfg.Advertise
	} else if tcp, ok := l.Addr().(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		_ = l.Close()
		return nil, "", fmt.Errorf("transport: other nodes cannot reach %s: set Config.Advertise", at)
	}
	node := network + ":" + at
	if _, _, err := checkNode(networkKind(network), node); err != nil {
		_ = l.Close()
		return nil, "", err
	}
	return l, node, nil
}
