package nats

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"

	"github.com/golda-dev/golda/internal/link"
)

// accessFile is the name of the file in the directory of a store that says
// where its server listens, and with which password: a URL. Only its owner may
// read it.
const accessFile = "golda.access"

// accessUser is the user that a server which listens knows.
const accessUser = "golda"

// Reach connects to the server of a store that another process of this machine
// has opened with [Store.Listen]. It finds the address and the password in the
// file golda.access of the store's directory, which the server writes when it
// starts:
//
//	conn, err := nats.Reach(ctx, "/var/lib/shop")
//
// All that holds of [Connect] holds of it, and the options are the same; if the
// server is started again, with another address and password, the connection
// finds it by the file. The error names the file if it is not there, if others
// than its owner may read it, which is refused, or if it is no regular file;
// the address if no server listens there any more.
func Reach(ctx context.Context, dir string, options ...natsgo.Option) (*Conn, error) {
	link.CheckContext(ctx, "nats: Reach")
	name := filepath.Join(dir, accessFile)
	a, err := readAccess(name)
	if err != nil {
		return nil, fmt.Errorf("nats: reach the store in %q: %w", dir, err)
	}
	own := []natsgo.Option{natsgo.SetCustomDialer(accessDialer(name)), natsgo.UserInfoHandler(accessUserInfo(name)),
		natsgo.CustomInboxPrefix(inboxOf(accessUser))}
	c, err := connect(ctx, "nats://"+a.Host, append(own, options...))
	if err != nil {
		return nil, fmt.Errorf("nats: reach the store in %q: %w", dir, err)
	}
	return c, nil
}

// accessDialer dials the address that the file of the name has now.
type accessDialer string

// Dial is for nats.go. The address is the first connection's.
func (d accessDialer) Dial(network, _ string) (net.Conn, error) {
	a, err := readAccess(string(d))
	if err != nil {
		return nil, err
	}
	return net.DialTimeout(network, a.Host, accessTime)
}

// accessTime is how long a server on this machine may take to accept a
// connection.
const accessTime = 5 * time.Second

// accessUserInfo returns a function that reads user and password in the file of
// the name.
func accessUserInfo(name string) natsgo.UserInfoCB {
	return func() (user, password string) {
		a, err := readAccess(name)
		if err != nil {
			return "", "" // the server refuses it, and nats.go tries again
		}
		password, _ = a.User.Password()
		return a.User.Username(), password
	}
}

// readAccess reads where a server listens. A file that others than its owner
// may read, or write, is refused.
func readAccess(name string) (*url.URL, error) {
	info, err := os.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("no server listens for it: set Store.Listen where it is opened with Embed: %w", err)
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no regular file", name)
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("%s has the mode %#o, and others may use it: chmod 600 it, and start the server again, which makes another password",
			name, info.Mode().Perm())
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	a, err := url.Parse(strings.TrimSpace(string(text)))
	if err != nil || a.Host == "" || a.User == nil {
		return nil, fmt.Errorf("%s cannot be read: it should have a URL with a user and a password", name)
	}
	return a, nil
}

// writeAccess writes where a server listens, in a new file, so that no link is
// followed.
func writeAccess(dir string, a *url.URL) (err error) {
	f, err := os.CreateTemp(dir, accessFile) // of mode 0600
	if err != nil {
		return err
	}
	_, err = f.WriteString(a.String() + "\n")
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, accessFile))
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// listener is how a server lets other processes in: with one user, and a
// password that is made when the server starts. The zero listener lets none in.
type listener struct{ address, password string }

// listener returns how the server of a store lets others in.
func (s Store) listener() listener {
	if s.Listen == "" {
		return listener{}
	}
	return listener{s.Listen, rand.Text()}
}

// checkListen returns the fault of Store.Listen, or nil.
func checkListen(address string) error {
	switch _, _, err := listenAddress(address); {
	case address == "":
		return nil
	case err != nil:
		return fmt.Errorf("Listen is %q, which is not of the form host:port; :0 is loopback and a port that the system chooses", address)
	default:
		return nil
	}
}

// listenAddress splits an address. Without a host it is one of loopback.
func listenAddress(address string) (host string, port int, err error) {
	host, number, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, err
	}
	if host == "" {
		host = "127.0.0.1"
	}
	if number == "0" {
		return host, server.RANDOM_PORT, nil
	}
	port, err = strconv.Atoi(number)
	if err == nil && (port < 1 || port > 1<<16-1) {
		err = fmt.Errorf("the port is %d", port)
	}
	return host, port, err
}

// configure adds the port and the user to the options of a server.
func (l listener) configure(o *server.Options) {
	if l.address == "" {
		return
	}
	o.DontListen = false
	o.Host, o.Port, _ = listenAddress(l.address) // it was checked
	o.CustomClientAuthentication = l             // the server would warn of a password in its options
}

// Check is for the server: it reports whether a client has the password. It
// compares in a time that does not depend on where the two differ.
func (l listener) Check(c server.ClientAuthentication) bool {
	given := c.GetOpts()
	return subtle.ConstantTimeCompare([]byte(given.Username), []byte(accessUser)) == 1 &&
		subtle.ConstantTimeCompare([]byte(given.Password), []byte(l.password)) == 1
}

// credentials are what the connection inside the process connects with.
func (l listener) credentials() natsgo.Option { return natsgo.UserInfo(accessUser, l.password) }

// tell writes how others reach the server, or removes what an earlier one has
// written.
func (l listener) tell(dir string, at net.Addr) error {
	if l.address == "" {
		return removeIfThere(filepath.Join(dir, accessFile))
	}
	return writeAccess(dir, &url.URL{Scheme: "nats", Host: reachableAt(at), User: url.UserPassword(accessUser, l.password)})
}

// reachableAt returns the address by which this machine reaches a server:
// loopback if it listens everywhere.
func reachableAt(at net.Addr) string {
	host, port, err := net.SplitHostPort(at.String())
	if err != nil {
		return at.String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}
