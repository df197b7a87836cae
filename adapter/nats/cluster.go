package nats

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/golda-dev/golda/internal/link"
)

// Cluster says how the servers of several processes find and trust each other; see [Join]. All fields but Advertise, TLS and Clients must
// be set, and Members and Secret must be the same in all processes.
type Cluster struct {
	// Name is the name of this member, of 1 to 64 letters, digits, - and _. No two members have the same name, and a directory always has
	// the same.
	Name string
	// Members are the addresses of all members, this one's too, in any order: an odd number of them, at least three. Each member connects
	// to all others.
	Members []string
	// Listen is the address for the connections of the other members, such as "127.0.0.1:7001" or, for all interfaces, ":7001".
	Listen string
	// Advertise is the address that this member makes known to the others. Empty means that of Listen. Set it if they have it in Members
	// under another address: a name, or that of a proxy.
	Advertise string
	// Secret is the password that members, and the processes that Clients allows, must know. It is at least 16 bytes long.
	Secret string
	// TLS has the certificate of this member, and RootCAs that the certificates of all members, and those of clients if they have one,
	// are checked with. Members demand a certificate from each other, which must be valid for the addresses in Members. nil means that
	// the secret and all messages travel as they are: use that on loopback, or in a network that is encrypted otherwise.
	TLS *tls.Config
	// Clients is the address for the connections of processes that are no members: they use [Connect] with the user "golda" and the
	// Secret. Empty means that the server refuses them. Then its port, which a server with members cannot be without, is one of loopback.
	Clients string
}

// Join starts a NATS server inside the process, as [Embed] does, which forms a cluster with the servers of other processes. A message of an
// [Inlet] is in two of three of them when it is published, and any process delivers it. As long as more than half of the members run and
// reach each other nothing is lost, and those go on. The others get [ErrAway] meanwhile, and catch up when they are back.
//
// Join waits until the members have elected a leader: the first time all members must be there for that, later more than half of them. So
// it may be called in all processes at the same time. When ctx ends before, the error is [ErrAway], and says which members cannot be
// reached.
//
// The directory belongs to the member. One that another member, or Embed, has used is refused. A member whose directory is lost, or
// is [ErrCorrupt], starts again with an empty one and gets all from the others, if all of these run meanwhile.
func Join(ctx context.Context, dir string, s Store, c Cluster) (*Conn, error) {
	link.CheckContext(ctx, "nats: Join")
	return open(ctx, dir, s, &member{Cluster: c, token: rand.Text()})
}

// member is the server of this process in a cluster. A nil member is a server that is alone.
type member struct {
	Cluster

	token string // of the connection inside the process
}

const (
	clusterName = "golda"
	clusterUser = "golda"
	leastSecret = 16
)

// check returns all that is wrong with the options.
func (m *member) check() error {
	if m == nil {
		return nil
	}
	var errs []error
	fault := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf("Cluster."+format, args...))
		}
	}
	fault(!validName.MatchString(m.Name), "Name is %q, and must be of 1 to 64 letters, digits, - and _", m.Name)
	n := len(m.Members)
	fault(n < 3 || n%2 == 0, "Members has %d addresses; list those of all members, of this one too: an odd number, at least 3", n)
	for k, address := range m.Members {
		fault(slices.Contains(m.Members[:k], address), "Members has %q twice", address)
		fault(!reachable(address), "Members has %q, which is not of the form host:port", address)
	}
	fault(m.Advertise != "" && !reachable(m.Advertise), "Advertise is %q, which is not of the form host:port", m.Advertise)
	_, _, err := splitAddress(m.Listen)
	fault(err != nil, "Listen is %q, which is not of the form host:port", m.Listen)
	_, _, err = splitAddress(m.Clients)
	fault(m.Clients != "" && err != nil, "Clients is %q, which is not of the form host:port", m.Clients)
	fault(len(m.Secret) < leastSecret, "Secret has %d bytes, and must have at least %d", len(m.Secret), leastSecret)
	fault(m.TLS != nil && len(m.TLS.Certificates) == 0 && m.TLS.GetCertificate == nil, "TLS has no certificate")
	return errors.Join(errs...)
}

// splitAddress splits host:port. The host may be empty.
func splitAddress(address string) (host string, port int, err error) {
	host, number, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, err
	}
	port, err = strconv.Atoi(number)
	if err == nil && (port < 1 || port > 1<<16-1) {
		err = fmt.Errorf("the port is %d", port)
	}
	return host, port, err
}

// reachable reports whether an address is one to connect to.
func reachable(address string) bool {
	host, _, err := splitAddress(address)
	return err == nil && host != ""
}

// memberName is the file in the directory of a store that has the name of its member.
const memberName = "golda.member"

// owns returns an error if the directory belongs to another member, or to a server that is alone. A server that found streams there which
// its cluster does not know would remove them.
func (m *member) owns(dir string, streams []string) error {
	file := filepath.Join(dir, memberName)
	text, err := os.ReadFile(file)
	owner := strings.TrimSpace(string(text))
	switch {
	case err == nil && m == nil:
		return fmt.Errorf("it belongs to the member %q of a cluster; use Join", owner)
	case err == nil && owner != m.Name:
		return fmt.Errorf("it belongs to the member %q of a cluster, not to %q", owner, m.Name)
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return err
	case m == nil:
		return nil
	case len(streams) > 0:
		return fmt.Errorf("it belongs to a server without a cluster, and has the streams %s; use Embed, or another directory",
			strings.Join(streams, ", "))
	}
	return os.WriteFile(file, []byte(m.Name+"\n"), 0o600)
}

// configure adds the options of a member to those of a server.
func (m *member) configure(o *server.Options) {
	if m == nil {
		return
	}
	o.ServerName = m.Name
	o.DontListen = false // otherwise a server does not start its routes
	o.Host, o.Port = "127.0.0.1", server.RANDOM_PORT
	if m.Clients != "" {
		o.Host, o.Port, _ = splitAddress(m.Clients)
	}
	o.CustomClientAuthentication, o.CustomRouterAuthentication = m, m
	o.Cluster = server.ClusterOpts{
		Name: clusterName, Advertise: m.Advertise, NoAdvertise: true, Username: clusterUser, Password: m.Secret,
		AuthTimeout: handshakeTime.Seconds(), PingInterval: handshakeTime,
	}
	o.Cluster.Host, o.Cluster.Port, _ = splitAddress(m.Listen)
	o.AuthTimeout = handshakeTime.Seconds()
	o.ConnectErrorReports, o.ReconnectErrorReports = seldom, seldom
	for _, address := range m.Members {
		o.Routes = append(o.Routes, &url.URL{Scheme: "nats-route", Host: address, User: url.UserPassword(clusterUser, m.Secret)})
	}
	if m.TLS != nil {
		m.secure(o)
	}
}

// seldom is how many attempts to reach a member fail, one a second, for one line in the log.
const seldom = 60

// handshakeTime is how long a member may take to authenticate, and how often members look whether the others are there.
const handshakeTime = 10 * time.Second

// secure adds TLS: between members both sides show a certificate, clients need none.
func (m *member) secure(o *server.Options) {
	routes := m.TLS.Clone()
	if routes.ClientCAs == nil {
		routes.ClientCAs = routes.RootCAs
	}
	clients := routes.Clone()
	routes.ClientAuth = tls.RequireAndVerifyClientCert
	o.Cluster.TLSConfig, o.Cluster.TLSTimeout = routes, handshakeTime.Seconds()
	o.TLSConfig, o.TLSTimeout = clients, handshakeTime.Seconds()
}

// Check is for the server: it reports whether a member or a client may connect.
func (m *member) Check(c server.ClientAuthentication) bool {
	given := c.GetOpts()
	if c.Kind() == server.CLIENT && same(given.Token, m.token) {
		return true
	}
	return (c.Kind() == server.ROUTER || m.Clients != "") && same(given.Username, clusterUser) && same(given.Password, m.Secret)
}

// same compares in a time that does not depend on what is different.
func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// credentials are those of the connection inside the process.
func (m *member) credentials() natsgo.Option {
	if m == nil {
		return func(*natsgo.Options) error { return nil }
	}
	return natsgo.Token(m.token)
}

// How Join waits for the others.
const (
	askTime  = 2 * time.Second
	askPause = 100 * time.Millisecond
	sayTime  = 10 * time.Second // how often the log says what is missing
	dialTime = time.Second
)

// newConn makes a Conn when the cluster has a leader, which answers.
func (m *member) newConn(ctx context.Context, nc *natsgo.Conn, stop func() error, srv *server.Server, log *serverLog) (*Conn, error) {
	if m == nil {
		ctx, cancel := context.WithTimeout(ctx, readyTime)
		defer cancel()
		return newConn(ctx, nc, stop)
	}
	said := time.Now()
	for {
		ask, cancel := context.WithTimeout(ctx, askTime)
		c, err := newConn(ask, nc, stop)
		cancel()
		if err == nil {
			c.copies = 3
			return c, nil
		}
		if log.fatal.Load() {
			return nil, log.reason(err)
		}
		if log.to != nil && time.Since(said) > sayTime {
			said = time.Now()
			log.to.LogAttrs(ctx, slog.LevelWarn, "the member waits for more than half of its cluster",
				slog.String("member", m.Name), slog.String("reason", m.missing(ctx, srv)+log.refused()))
		}
		select {
		case <-time.After(askPause):
		case <-ctx.Done():
			missing := m.missing(ctx, srv) + log.refused()
			err := fmt.Errorf("member %q: the cluster has no leader: %s: %w", m.Name, missing, context.Cause(ctx))
			return nil, &refusal{ErrAway, err}
		}
	}
}

// missing says which members are connected, and why others cannot be reached.
func (m *member) missing(ctx context.Context, srv *server.Server) string {
	var connected []string
	if routes, err := srv.Routez(nil); err == nil {
		for _, r := range routes.Routes {
			connected = append(connected, r.RemoteName)
		}
	}
	slices.Sort(connected)
	connected = slices.Compact(connected)
	text := fmt.Sprintf("of the %d others %d are connected", len(m.Members)-1, len(connected))
	if len(connected) > 0 {
		text += " (" + strings.Join(connected, ", ") + ")"
	}
	faults := make([]string, len(m.Members))
	dialer := net.Dialer{Timeout: dialTime}
	var all sync.WaitGroup
	for k, address := range m.Members {
		all.Go(func() {
			conn, err := dialer.DialContext(context.WithoutCancel(ctx), "tcp", address)
			if err != nil {
				faults[k] = "; " + err.Error() // it has the address
				return
			}
			_ = conn.Close()
		})
	}
	all.Wait()
	return text + strings.Join(faults, "")
}

// patience is how long a member, or a client of one, waits until the cluster can do what it is asked for, if the context allows.
const patience = time.Minute

// patiently calls f again while it fails because too few members are there, or there is no leader. The answer to one of several members
// that make the same stream may be lost.
func (c *Conn) patiently(ctx context.Context, f func(context.Context) error) error {
	if c.copies == 1 && c.nc.ConnectedClusterName() == "" {
		return f(ctx)
	}
	end := time.Now().Add(patience)
	for wait := askTime; ; wait *= 2 {
		try, cancel := context.WithTimeout(ctx, wait)
		err := f(try)
		cancel()
		if err == nil || time.Now().After(end) || !later(err) {
			return err
		}
		select {
		case <-time.After(askPause):
		case <-ctx.Done():
			return err
		}
	}
}

// later reports whether an error may be over when more members are there.
func later(err error) bool {
	api, ok := errors.AsType[*jetstream.APIError](err)
	return errors.Is(err, ErrAway) || ok && api.ErrorCode == noPeers
}

// noPeers is the code of the server's error that there are fewer servers than replicas.
const noPeers = 10005
