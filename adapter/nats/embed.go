package nats

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Store says how the server of [Embed] keeps messages. The zero Store is
// useful.
type Store struct {
	// MaxBytes is how large the store may become; then messages are refused
	// with [ErrFull]. 0 means three quarters of the space that is free at the
	// start, and 8 KiB is the least.
	MaxBytes int64
	// MaxPayload is how large a message may be, with its headers. 0 means 1
	// MiB, 8 KiB is the least and 64 MiB the most.
	MaxPayload int
	// SyncEvery is how often written messages are synced to the disk. A crash
	// of the process loses nothing in any case. A crash of the machine, or a
	// power cut, may lose messages that were acknowledged in this time. 0 means
	// a second.
	SyncEvery time.Duration
	// SyncAlways syncs each message before it is acknowledged, which takes as
	// long as the disk does.
	SyncAlways bool
	// Listen is the address at which other processes reach the server, with
	// [Reach]: they share the inlets then. ":4222" is a port of loopback, ":0"
	// one that the system chooses. With another host, such as "0.0.0.0:4222",
	// the password and all messages travel as they are on the network. A
	// process that knows the password, which is made at each start and is in
	// the file golda.access, of mode 0600, of the store's directory, may do
	// everything. Empty means that only the Conn of Embed reaches the server,
	// which opens no port.
	Listen string
	// Logger gets what the server warns of. nil means that only damage is
	// logged, by slog.Default.
	Logger *slog.Logger
}

// check returns all that is wrong with a store's options.
func (s Store) check() error {
	var errs []error
	if s.MaxBytes < 0 {
		errs = append(errs, fmt.Errorf("MaxBytes is %d; use 0 for three quarters of the free space", s.MaxBytes))
	}
	if s.MaxBytes > 0 && s.MaxBytes < leastPayload {
		errs = append(errs, fmt.Errorf("MaxBytes is %d, and must be at least %d; use 0 for three quarters of the free space", s.MaxBytes, leastPayload))
	}
	if s.MaxPayload < 0 || s.MaxPayload > maxPayload {
		errs = append(errs, fmt.Errorf("MaxPayload is %d, and must be at most %d; use 0 for 1 MiB", s.MaxPayload, maxPayload))
	}
	if s.MaxPayload > 0 && s.MaxPayload < leastPayload {
		errs = append(errs, fmt.Errorf("MaxPayload is %d, and must be at least %d, of which %d are kept free for the reasons of dead letters; "+
			"use 0 for 1 MiB", s.MaxPayload, leastPayload, letterRoom))
	}
	if s.SyncEvery < 0 {
		errs = append(errs, fmt.Errorf("SyncEvery is %v; use 0 for a second, or SyncAlways", s.SyncEvery))
	}
	if s.SyncAlways && s.SyncEvery != 0 {
		errs = append(errs, errors.New("SyncAlways and SyncEvery exclude each other"))
	}
	return errors.Join(errs...)
}

// maxPayload is the largest message that a server takes, and leastPayload the
// least that makes an inlet useful.
const (
	maxPayload   = server.MAX_PENDING_SIZE
	leastPayload = 2 * letterRoom
)

// lockName is the file in the directory of a store that its server locks,
// beside the directory itself.
const lockName = "golda.lock"

// Embed starts a NATS server inside the process, which keeps its streams in a
// directory, and connects to it. The server opens no port, unless Store.Listen
// says so: only this Conn reaches it. The directory is made if it is not there.
// A directory belongs to one Embed at a time: a second one, in this process or
// another, is refused with [ErrLocked], and so is a store that is damaged, with
// [ErrCorrupt]. Each error names the directory.
//
// The server runs until [Conn.Close]. If the process is killed before, the next
// Embed of the directory finds all that was acknowledged.
//
// A server whose disk is full, or fails, writes nothing more: messages are
// refused with [ErrFull], or [ErrAway]. To go on, close the Conn, make room,
// and open the store again.
func Embed(dir string, s Store) (*Conn, error) {
	c, err := lockAndServe(dir, s)
	if err != nil {
		return nil, fmt.Errorf("nats: store in %q: %w", dir, err)
	}
	return c, nil
}

func lockAndServe(dir string, s Store) (*Conn, error) {
	if dir == "" {
		return nil, errors.New("the directory has no name")
	}
	if err := errors.Join(s.check(), checkListen(s.Listen)); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	lock, err := lockStore(dir)
	if err != nil {
		return nil, err
	}
	c, err := serve(dir, s)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	stop := c.release
	c.release = func() error {
		err := stop()
		writeClean(dir)
		return errors.Join(err, lock.Close())
	}
	return c, nil
}

// serve starts the server of a directory that is locked, and connects to it.
func serve(dir string, s Store) (*Conn, error) {
	before, err := streamsOnDisk(dir)
	if err != nil {
		return nil, err
	}
	if err := verify(dir, before, s); err != nil {
		return nil, err
	}
	log := &serverLog{to: s.Logger, damage: s.warn}
	o, listens := s.options(dir), s.listener()
	listens.configure(o)
	srv, err := server.NewServer(o)
	if err != nil {
		return nil, err
	}
	stop := func() error {
		awaitRequests(srv)
		srv.Shutdown()
		srv.WaitForShutdown()
		return nil
	}
	srv.SetLogger(log, false, false)
	if err := removeIfThere(filepath.Join(dir, cleanName)); err != nil {
		return nil, err
	}
	srv.Start()
	if !srv.JetStreamEnabled() || !ready(srv, log) {
		return nil, errors.Join(log.reason(errors.New("the server has not started")), stop())
	}
	inside := append(defaults(50*time.Millisecond), natsgo.InProcessServer(srv), natsgo.Timeout(readyTime), listens.credentials())
	nc, err := natsgo.Connect("", inside...)
	if err != nil {
		return nil, errors.Join(err, stop())
	}
	ctx, cancel := context.WithTimeout(context.Background(), readyTime)
	defer cancel()
	c, err := newConn(ctx, nc, stop)
	if err == nil {
		err = recovered(c.js, dir, before, log)
	}
	if err == nil {
		err = listens.tell(dir, srv.Addr())
	}
	if err != nil {
		nc.Close()
		return nil, errors.Join(err, stop())
	}
	c.failure = log.failure
	c.health = func() error {
		if h := srv.Healthz(nil); h.Error != "" {
			return &refusal{ErrAway, errors.New(h.Error)}
		}
		return nil
	}
	return c, nil
}

// awaitRequests waits until a server has answered the requests that it has
// received, for readyTime at most. A stream that is made while the server shuts
// down would keep its files open, and a goroutine, until the process ends.
func awaitRequests(srv *server.Server) {
	for end := time.Now().Add(readyTime); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if is, err := srv.Jsz(nil); err != nil || is.API.Inflight == 0 {
			return
		}
	}
}

// ready waits until a server accepts connections. It returns false at once if
// the server cannot listen.
func ready(srv *server.Server, log *serverLog) bool {
	for end := time.Now().Add(readyTime); time.Now().Before(end) && !log.fatal.Load(); {
		if srv.ReadyForConnections(readyTime / 100) {
			return true
		}
	}
	return false
}

// standStill is how long the process may stand still before the server takes
// its only client, which stands still with it, for too slow and ends the
// connection. The default of the server is ten seconds.
const standStill = time.Minute

// readyTime is how long a server that has recovered its streams may take to
// accept the connection.
const readyTime = 10 * time.Second

// options returns the options of the server.
func (s Store) options(dir string) *server.Options {
	o := &server.Options{
		ServerName: "golda", DontListen: true, NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: dir, JetStreamMaxStore: s.MaxBytes,
		MaxPayload: int32(s.MaxPayload),
		SyncAlways: s.SyncAlways, SyncInterval: s.SyncEvery, DisableJetStreamBanner: true,
		WriteDeadline: standStill,
	}
	if s.SyncEvery == 0 {
		o.SyncInterval = defaultSync
	}
	return o
}

// defaultSync is how often written messages are synced to the disk by default.
const defaultSync = time.Second

// warn logs a damage of a store, to the default logger if the user has set
// none: the damage cost messages, or makes them be handled again.
func (s Store) warn(text string, args ...any) {
	to := s.Logger
	if to == nil {
		to = slog.Default()
	}
	to.Warn(text, args...)
}

// streamsOnDisk returns the names of the streams that have data in the
// directory of a store.
func streamsOnDisk(dir string) (names []string, err error) {
	streams := streamsDir(dir)
	entries, err := os.ReadDir(streams)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") && hasData(filepath.Join(streams, e.Name())) {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// hasData reports whether the directory of a stream has messages or a
// description. One that was being made when the process was killed has neither.
func hasData(dir string) bool {
	if info, err := os.Stat(filepath.Join(dir, "meta.sum")); err == nil && info.Size() > 0 {
		return true
	}
	blocks, _ := filepath.Glob(filepath.Join(dir, "msgs", "*.blk"))
	for _, b := range blocks {
		if info, err := os.Stat(b); err == nil && info.Size() > 0 {
			return true
		}
	}
	return false
}

// recovered returns an error if a stream that was on the disk is not in the
// server, or lacks messages. The server itself goes on without them. A consumer
// whose state cannot be read begins anew when its inlet is made.
func recovered(js jetstream.JetStream, dir string, before []string, log *serverLog) error {
	ctx, cancel := context.WithTimeout(context.Background(), readyTime)
	defer cancel()
	for _, name := range before {
		stream, err := js.Stream(ctx, name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return fmt.Errorf("%w: stream %s: %w", ErrCorrupt, name, log.reason(err))
		}
		if err != nil {
			return explain(err)
		}
		if lost := stream.CachedInfo().State.Lost; lost != nil {
			return fmt.Errorf("%w: stream %s: %d messages of %d bytes cannot be read", ErrCorrupt, name, len(lost.Msgs), lost.Bytes)
		}
		if err := forgetDamaged(ctx, stream, filepath.Join(streamsDir(dir), name, "obs"), log); err != nil {
			return err
		}
	}
	return nil
}

// forgetDamaged removes the states of consumers that the server does not have
// because it could not read them: it would not make these consumers again.
// After a power cut a state may be incomplete. Messages that are not
// acknowledged are in the stream, and are delivered anew.
func forgetDamaged(ctx context.Context, stream jetstream.Stream, dir string, log *serverLog) error {
	states, _ := filepath.Glob(filepath.Join(dir, "*", "o.dat"))
	if len(states) == 0 {
		return nil
	}
	var there []string
	names := stream.ConsumerNames(ctx)
	for name := range names.Name() {
		there = append(there, name)
	}
	if err := names.Err(); err != nil {
		return explain(err)
	}
	for _, state := range states {
		if slices.Contains(there, filepath.Base(filepath.Dir(state))) {
			continue
		}
		if err := removeIfThere(state); err != nil {
			return err
		}
		log.damage("what was delivered of a stream cannot be read, and is forgotten: what is not acknowledged is delivered again", "file", state)
	}
	return nil
}

// serverLog keeps the first warnings of a server, since it has no other way to
// say why it has not started, and passes them on.
type serverLog struct {
	to     *slog.Logger
	damage func(text string, args ...any) // logs a damage of the store
	fatal  atomic.Bool                    // the server would have ended its process

	mu     sync.Mutex // guards the rest
	first  []string
	broken string // why the server cannot write any more; empty if it can
}

func (l *serverLog) keep(level slog.Level, format string, args []any) {
	text := strings.TrimSpace(fmt.Sprintf(format, args...))
	l.mu.Lock()
	if len(l.first) < 5 {
		l.first = append(l.first, text)
	}
	if l.broken == "" && strings.Contains(strings.ToLower(text), "critical write error") {
		l.broken = text
	}
	l.mu.Unlock()
	if l.to != nil {
		l.to.Log(context.Background(), level, "nats server: "+text)
	}
}

// failure returns why the server cannot write any more, or nil.
func (l *serverLog) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.broken == "":
		return nil
	case strings.Contains(l.broken, syscall.ENOSPC.Error()):
		return &refusal{ErrFull, errors.New(l.broken)}
	default:
		return &refusal{ErrAway, errors.New(l.broken)}
	}
}

// reason returns what the server has warned of, or else an error.
func (l *serverLog) reason(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.first) == 0 {
		return err
	}
	return errors.New(strings.Join(l.first, "; "))
}

// Noticef is for the server.
func (l *serverLog) Noticef(string, ...any) {}

// Debugf is for the server.
func (l *serverLog) Debugf(string, ...any) {}

// Tracef is for the server.
func (l *serverLog) Tracef(string, ...any) {}

// Warnf is for the server.
func (l *serverLog) Warnf(format string, args ...any) { l.keep(slog.LevelWarn, format, args) }

// Errorf is for the server.
func (l *serverLog) Errorf(format string, args ...any) { l.keep(slog.LevelError, format, args) }

// Fatalf is for the server, which goes on after it.
func (l *serverLog) Fatalf(format string, args ...any) {
	l.keep(slog.LevelError, format, args)
	l.fatal.Store(true)
}

// redacted returns a URL, or several, without passwords and tokens: without all
// that is before the last @ of each, whatever is wrong with the URL. A name is
// kept if it is certain that it is one.
func redacted(urls string) string {
	var all []string
	for i, u := range strings.Split(urls, ",") {
		if i > 0 && strings.Contains(u, "@") && !strings.Contains(u, "://") { // perhaps the comma belongs to a password
			return "xxxxx" + urls[strings.LastIndex(urls, "@"):]
		}
		all = append(all, redactedOne(strings.TrimSpace(u)))
	}
	return strings.Join(all, ",")
}

func redactedOne(u string) string {
	if !strings.Contains(u, "://") && !strings.Contains(u, "//") {
		u = "nats://" + u // as nats.go does
	}
	parsed, err := url.Parse(u)
	if at := strings.LastIndex(u, "@"); at >= 0 && (err != nil || parsed.User == nil || strings.Contains(parsed.Host+parsed.Path, "@")) {
		return "xxxxx" + u[at:]
	}
	if err != nil {
		return "(a URL that cannot be parsed)"
	}
	if _, named := parsed.User.Password(); parsed.User != nil && !named { // it is a token
		parsed.User = url.UserPassword("", "")
	}
	return parsed.Redacted()
}
