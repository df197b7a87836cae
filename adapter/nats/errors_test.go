package nats_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/stage"
)

func TestAFullStreamRefusesAndDropsNothing(t *testing.T) {
	for name, c := range map[string]struct {
		s nats.Store
		o nats.Options[string]
	}{
		"of so many messages": {nats.Store{}, nats.Options[string]{MaxMessages: 5}},
		"of so many bytes":    {nats.Store{}, nats.Options[string]{MaxBytes: 8 << 10}},
		"in a full store":     {nats.Store{MaxBytes: 16 << 10}, nats.Options[string]{}},
	} {
		t.Run(name, func(t *testing.T) {
			texts := inlet(t, embed(t, t.TempDir(), c.s), "texts", c.o)
			n, err := 0, error(nil)
			for ; err == nil; n++ {
				require.Less(t, n, 1000)
				err = texts.Publish(t.Context(), "", strings.Repeat("x", 1000))
			}
			n--
			require.ErrorIs(t, err, nats.ErrFull)
			overload, ok := stage.Overloaded(err)
			require.True(t, ok)
			require.Equal(t, stage.Overload{Reason: nats.InletFull, RetryAfter: time.Second, Tried: true}, overload)
			require.Contains(t, err.Error(), `inlet "texts"`)
			s, err := texts.Status(t.Context())
			require.NoError(t, err)
			require.EqualValues(t, n, s.Pending)
			require.EqualValues(t, 1, texts.Counts().Refused)
		})
	}
}

func TestALargeMessageIsRefusedUnlessTheServerTakesIt(t *testing.T) {
	large := strings.Repeat("x", 10<<20)
	texts := inlet(t, embed(t, t.TempDir(), nats.Store{}), "texts", nats.Options[string]{})
	err := texts.Publish(t.Context(), "", large)
	require.ErrorIs(t, err, nats.ErrTooLarge)
	_, ok := stage.Overloaded(err)
	require.False(t, ok)
	require.NoError(t, texts.Publish(t.Context(), "", "small"), "the connection still works")

	texts = inlet(t, embed(t, t.TempDir(), nats.Store{MaxPayload: 16 << 20}), "texts",
		nats.Options[string]{Retry: stage.RetryPolicy{Attempts: 1}})
	patient, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, texts.Publish(patient, "", large))
	require.NoError(t, texts.Publish(patient, "", strings.Repeat("y", 16<<20-5<<10)), "the largest")
	var got atomic.Int64
	src := stage.Sink("measure", func(_ context.Context, s string) error {
		got.Add(int64(len(s)))
		return errors.New("a dead letter needs more headers")
	})
	p := newPipeline(t, src, texts.Feed)
	eventually(t, "both are dead letters", func() bool { return texts.Counts().DeadLettered == 2 })
	require.EqualValues(t, 26<<20-5<<10, got.Load())
	require.NoError(t, p.Stop(t.Context()))
}

func TestOptionsAreChecked(t *testing.T) {
	conn := embed(t, t.TempDir(), nats.Store{})
	_, err := nats.NewInlet(t.Context(), conn, "a name", nats.Options[int]{
		MaxBytes: -1, MaxMessages: -1, Dedup: -1, Replicas: 6, MaxInFlight: -1, AckWait: 1,
		Retry: stage.RetryPolicy{Attempts: -1, Backoff: 2, Max: 1, Jitter: 2, Budget: 1},
	})
	for _, want := range []string{
		`nats: inlet "a name": the name "a name" must be of 1 to 64 letters`, "MaxBytes is -1", "MaxMessages is -1", "Dedup is -1ns", "Replicas is 6",
		"MaxInFlight is -1", "AckWait is 1ns", "Retry.Attempts is -1", "Retry.Max is 1ns, and Backoff 2ns", "Retry.Jitter is 2", "Retry.Budget is 1",
	} {
		require.ErrorContains(t, err, want)
	}
	_, err = nats.NewInlet(t.Context(), conn, "small", nats.Options[int]{MaxBytes: 1})
	require.ErrorContains(t, err, `nats: inlet "small": MaxBytes is 1, and must be at least 1024: the stream would take no message; use 0 for no limit`)
	long := strings.Repeat("x", 1<<20)
	_, err = nats.NewInlet(t.Context(), conn, long, nats.Options[int]{})
	require.ErrorContains(t, err, "must be of 1 to 64 letters")
	require.Less(t, len(err.Error()), 500)
	_, err = nats.NewTransport(conn, long, nats.TransportConfig{})
	require.ErrorContains(t, err, "the name must be of 1 to 64 letters, digits, - and _")
	require.Less(t, len(err.Error()), 500)
	for _, name := range []string{"orders_DEAD", "orders_BACK"} {
		_, err = nats.NewInlet(t.Context(), conn, name, nats.Options[int]{})
		require.ErrorContains(t, err, "which are for streams beside that of the messages")
	}
	_, err = nats.NewInlet(t.Context(), conn, "many", nats.Options[int]{Replicas: 3})
	require.ErrorContains(t, err, "replicas")
	require.PanicsWithValue(t, "nats: NewInlet: the Conn is nil", func() { _, _ = nats.NewInlet(t.Context(), nil, "a", nats.Options[int]{}) })
	ended, cancel := context.WithCancelCause(t.Context())
	no := errors.New("no time")
	cancel(no)
	_, err = nats.NewInlet(ended, conn, "late", nats.Options[int]{})
	require.ErrorIs(t, err, context.Canceled)
	numbers := inlet(t, conn, "numbers", nats.Options[int]{})
	require.ErrorIs(t, numbers.Publish(ended, "", 1), no)
}

func TestANilContextPanicsAtOnce(t *testing.T) {
	conn := embed(t, t.TempDir(), nats.Store{})
	numbers := inlet(t, conn, "numbers", nats.Options[int]{})
	var none context.Context
	for name, call := range map[string]func(){
		"Connect":  func() { _, _ = nats.Connect(none, "nats://127.0.0.1:1") },
		"Close":    func() { _ = conn.Close(none) },
		"NewInlet": func() { _, _ = nats.NewInlet(none, conn, "a", nats.Options[int]{}) },
		"Publish":  func() { _ = numbers.Publish(none, "", 1) },
		"Status":   func() { _, _ = numbers.Status(none) },
		"Letters":  func() { _ = numbers.Letters(none) },
		"Retry":    func() { _ = numbers.Retry(none, nats.Letter{}) },
		"Drop":     func() { _ = numbers.Drop(none, nats.Letter{}) },
		"Once":     func() { _, _ = nats.Once(none, &table{}, "k", func(context.Context) (int, error) { return 1, nil }) },
		"Outcomes": func() { _, _ = conn.Outcomes(none, "a", 0) },
	} {
		require.PanicsWithValue(t, "nats: "+name+": nil context", call, name)
	}
	require.NoError(t, numbers.Publish(t.Context(), "", 1), "they had no other effect")
}

// serve starts a server with a port on loopback. It is stopped at the end of the test.
func serve(t testing.TB, o *server.Options) *server.Server {
	t.Helper()
	s := launch(t, o)
	t.Cleanup(func() { halt(s) })
	return s
}

// launch is serve without the stop.
func launch(t testing.TB, o *server.Options) *server.Server {
	t.Helper()
	o.Host, o.NoSigs, o.NoLog, o.JetStream = "127.0.0.1", true, true, true
	if o.Port == 0 {
		o.Port = -1
	}
	if o.WriteDeadline == 0 {
		o.WriteDeadline = time.Minute // a machine with other work may let the process stand still for long
	}
	if o.StoreDir == "" {
		o.StoreDir = t.TempDir()
	}
	s, err := server.NewServer(o)
	require.NoError(t, err)
	go s.Start()
	require.True(t, s.ReadyForConnections(time.Minute))
	return s
}

func halt(s *server.Server) {
	s.Shutdown()
	s.WaitForShutdown()
}

func TestAServerThatIsAwayIsWaitedFor(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := serve(t, &server.Options{StoreDir: dir})
	port := s.Addr().(*net.TCPAddr).Port
	conn, err := nats.Connect(t.Context(), s.ClientURL(), natsgo.ReconnectWait(10*time.Millisecond))
	require.NoError(t, err)
	defer shut(t, conn)
	var log buffer
	numbers := inlet(t, conn, "numbers", nats.Options[int]{
		AckWait: time.Second, MaxInFlight: 20, Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	const n = 300
	publish(t, numbers, n)
	var done tally
	p := start(t, numbers, stage.Sink("work", func(_ context.Context, k int) error {
		time.Sleep(time.Millisecond)
		done.add(k)
		return nil
	}))
	for _, part := range []int{n / 5, n / 2} {
		eventually(t, "some are done", func() bool { return done.len() > part })
		halt(s)
		eventually(t, "the feed is away", func() bool { return p.Snapshot().Feeds[0].State == "away" })
		require.ErrorIs(t, p.Snapshot().Feeds[0].Err, nats.ErrAway)
		short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		err := numbers.Publish(short, "late", n)
		cancel()
		require.ErrorIs(t, err, nats.ErrAway)
		overload, ok := stage.Overloaded(err)
		require.True(t, ok)
		require.Equal(t, nats.BrokerAway, overload.Reason)
		s = serve(t, &server.Options{StoreDir: dir, Port: port})
		eventually(t, "the feed is back", func() bool { return p.Snapshot().Feeds[0].State == "running" })
	}
	eventually(t, "all are done", func() bool { return done.len() >= n && status(t, numbers).Pending == 0 })
	for k := range n {
		require.Contains(t, done.of, k)
	}
	require.Zero(t, p.Snapshot().Feeds[0].Restarts)
	aways := strings.Count(log.String(), "the server is away")
	require.GreaterOrEqual(t, aways, 2)
	require.Equal(t, aways, strings.Count(log.String(), "the server is back"))
	require.NoError(t, p.Stop(t.Context()))
	eventually(t, "nothing is in flight", func() bool { return numbers.Counts().InFlight == 0 })
	lawful(t, numbers.Counts())
}

// What was not acknowledged is delivered again, as if the connection had been lost before.
func TestAConnectionThatIsLostWhileItIsClosedIsClosed(t *testing.T) {
	s := serve(t, &server.Options{})
	d := &fragile{}
	conn, err := nats.Connect(t.Context(), s.ClientURL(), natsgo.SetCustomDialer(d))
	require.NoError(t, err)
	d.broken.Store(true)
	require.NoError(t, conn.Close(t.Context()))
	require.False(t, conn.JetStream().Conn().IsConnected())
}

// fragile makes connections that end at the next write once they are broken.
type fragile struct{ broken atomic.Bool }

func (d *fragile) Dial(network, address string) (net.Conn, error) {
	c, err := net.Dial(network, address)
	return &fragileConn{c, d}, err
}

type fragileConn struct {
	net.Conn
	of *fragile
}

func (c *fragileConn) Write(b []byte) (int, error) {
	if c.of.broken.Load() {
		return 0, errors.Join(errors.New("broken"), c.Close())
	}
	return c.Conn.Write(b)
}

// Servers come and go while commands fail: letters, answers and signs of life are lost with the connection.
func TestServersThatComeAndGoLoseNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := serve(t, &server.Options{StoreDir: dir})
	port := s.Addr().(*net.TCPAddr).Port
	conn, err := nats.Connect(t.Context(), s.ClientURL(), natsgo.ReconnectWait(10*time.Millisecond))
	require.NoError(t, err)
	defer shut(t, conn)
	rotten := errors.New("rotten")
	numbers := inlet(t, conn, "numbers", nats.Options[int]{
		AckWait: time.Second, MaxInFlight: 30,
		Retry: stage.RetryPolicy{Attempts: 1000, Backoff: time.Millisecond, If: func(err error) bool { return !errors.Is(err, rotten) }},
	})
	const n = 400
	publish(t, numbers, n)
	var tries, done tally
	p := start(t, numbers, stage.Sink("work", func(_ context.Context, k int) error {
		time.Sleep(time.Millisecond)
		switch times := tries.add(k); {
		case k%10 == 0:
			return rotten
		case k%7 == 0 && times < 3:
			return errors.New("not yet")
		}
		done.add(k)
		return nil
	}))
	for part := 1; part < 5; part++ {
		eventually(t, "some are tried", func() bool { return tries.len() > part*n/6 })
		halt(s)
		s = serve(t, &server.Options{StoreDir: dir, Port: port})
	}
	eventually(t, "all have ended", func() bool {
		s, err := numbers.Status(t.Context())
		return err == nil && s.Pending == 0
	})
	require.NoError(t, p.Stop(t.Context()))
	dead := map[string]bool{}
	for l, err := range numbers.Letters(t.Context()) {
		require.NoError(t, err)
		require.False(t, dead[l.ID], "two letters of %s", l.ID)
		dead[l.ID] = true
	}
	for k := range n {
		require.Equal(t, k%10 == 0, dead[strconv.Itoa(k)], k)
		require.Equal(t, k%10 != 0, done.of[k] > 0, k)
	}
	require.Equal(t, nats.Status{Published: n, Buried: n / 10, DeadLettered: n / 10}, status(t, numbers))
	eventually(t, "nothing is in flight", func() bool { return numbers.Counts().InFlight == 0 })
	lawful(t, numbers.Counts())
}

// buffer is a buffer that a logger writes.
type buffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func TestAConnectionThatIsRefusedSaysWhy(t *testing.T) {
	s := serve(t, &server.Options{Username: "shop", Password: "secret"})
	open := s.ClientURL()
	at := strings.TrimPrefix(open, "nats://")
	_, err := nats.Connect(t.Context(), "nats://shop:wrong@"+at)
	require.ErrorIs(t, err, natsgo.ErrAuthorization)
	require.ErrorContains(t, err, at)
	require.NotContains(t, err.Error(), "wrong")
	conn, err := nats.Connect(t.Context(), open, natsgo.UserInfo("shop", "secret"))
	require.NoError(t, err)
	shut(t, conn)

	_, err = nats.Connect(t.Context(), "nats://127.0.0.1:1")
	require.ErrorIs(t, err, natsgo.ErrNoServers)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = nats.Connect(ended, open, natsgo.UserInfo("shop", "secret"))
	require.ErrorIs(t, err, context.Canceled)
	_, err = nats.Connect(t.Context(), "nats://a b:%")
	require.Error(t, err)
	eventually(t, "the late connection is closed", func() bool { return s.NumClients() == 0 })
}

func TestAServerWithoutJetStreamIsRefused(t *testing.T) {
	o := &server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true}
	s, err := server.NewServer(o)
	require.NoError(t, err)
	go s.Start()
	require.True(t, s.ReadyForConnections(time.Minute))
	defer halt(s)
	_, err = nats.Connect(t.Context(), s.ClientURL())
	require.ErrorContains(t, err, "jetstream not enabled")
}

func TestAnExpiredCertificateIsReported(t *testing.T) {
	for name, until := range map[string]time.Duration{"expired": -time.Minute, "valid": time.Hour} {
		t.Run(name, func(t *testing.T) {
			cert, pool := certificate(t, time.Now().Add(until))
			s := serve(t, &server.Options{TLS: true, TLSTimeout: 10, TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}}})
			conn, err := nats.Connect(t.Context(), "tls://"+s.Addr().String(), natsgo.Secure(&tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}))
			if until > 0 {
				require.NoError(t, err)
				shut(t, conn)
				return
			}
			invalid, ok := errors.AsType[x509.CertificateInvalidError](err)
			require.True(t, ok, err)
			require.Equal(t, x509.Expired, invalid.Reason)
			require.ErrorContains(t, err, "nats: connect to tls://127.0.0.1")
		})
	}
}

// certificate returns a certificate for 127.0.0.1 that is valid until a time, and a pool that trusts it.
func certificate(t testing.TB, until time.Time) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "golda"}, NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: until,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	leaf, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

// A file system of 16 MiB, if the test may mount one.
func TestAFullDiskRefusesAndLosesNothing(t *testing.T) {
	t.Parallel() // it waits for the answer that the server does not give
	dir := t.TempDir()
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		t.Skip("only root on Linux may mount a small disk")
	}
	if out, err := exec.CommandContext(t.Context(), "mount", "-t", "tmpfs", "-o", "size=16m", "golda", dir).CombinedOutput(); err != nil {
		t.Skipf("cannot mount a small disk: %s", out)
	}
	t.Cleanup(func() {
		out, err := exec.CommandContext(context.Background(), "umount", dir).CombinedOutput()
		assert.NoError(t, err, string(out))
	})
	conn, err := nats.Embed(dir, nats.Store{MaxBytes: 1 << 30}) // more than there is
	require.NoError(t, err)
	texts := inlet(t, conn, "texts", nats.Options[string]{})
	stored := 0
	for ; err == nil; stored++ {
		require.Less(t, stored, 1000)
		err = texts.Publish(t.Context(), strconv.Itoa(stored), strings.Repeat("x", 100<<10))
		for tries := 0; errors.Is(err, nats.ErrAway) && tries < 10; tries++ { // the machine may be busy
			err = texts.Publish(t.Context(), strconv.Itoa(stored), strings.Repeat("x", 100<<10))
		}
	}
	stored--
	for range 2 {
		require.ErrorIs(t, err, nats.ErrFull)
		require.ErrorContains(t, err, "no space left on device")
		require.ErrorContains(t, err, dir)
		_, overloaded := stage.Overloaded(err)
		require.True(t, overloaded)
		err = texts.Publish(t.Context(), "again", "x")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	require.NoError(t, conn.Close(ctx))
	if out, err := exec.CommandContext(t.Context(), "mount", "-o", "remount,size=64m", dir).CombinedOutput(); err != nil {
		t.Skipf("cannot make the disk larger: %s", out)
	}
	conn, err = nats.Embed(dir, nats.Store{})
	require.NoError(t, err)
	defer shut(t, conn)
	texts = inlet(t, conn, "texts", nats.Options[string]{})
	s, err := texts.Status(t.Context())
	require.NoError(t, err)
	require.GreaterOrEqual(t, s.Pending, uint64(stored))
	require.LessOrEqual(t, s.Pending, uint64(stored)+1, "one may be there although it was refused")
	require.NoError(t, texts.Publish(t.Context(), "more", "x"))
}

func TestWhatIsWrongWithAnInletIsSaidOnceAndInShort(t *testing.T) {
	conn := embed(t, t.TempDir(), nats.Store{})
	_, err := nats.NewInlet(t.Context(), conn, "x", nats.Options[int]{Partitions: 2})
	require.EqualError(t, err, `nats: inlet "x": Partitions is for the inlets of keyed stages that a Carrier has, and for Fair`)
	_, err = nats.NewInlet(t.Context(), conn, strings.Repeat("x", 1<<20), nats.Options[int]{})
	require.ErrorContains(t, err, "must be of 1 to 64 letters")
	require.Less(t, len(err.Error()), 512)
}

// The server takes headers of 64 KiB, with those of a dead letter.
func TestAnIDThatIsTooLongIsRefusedBeforeItIsSent(t *testing.T) {
	numbers := inlet(t, embed(t, t.TempDir(), nats.Store{}), "numbers", nats.Options[int]{})
	f := publishing(t, numbers, func(n int) string { return strings.Repeat("x", n) })
	for _, n := range []int{16<<10 + 1, 70_000, 1 << 20, 4 << 20} {
		want := fmt.Sprintf(`nats: inlet "numbers": message too large: its ID has %d bytes, and may have 16384`, n)
		err := numbers.Publish(t.Context(), strings.Repeat("x", n), 1)
		require.ErrorIs(t, err, nats.ErrTooLarge)
		require.EqualError(t, err, want)
		_, err = f.Call(t.Context(), n)
		require.EqualError(t, err, `stage "publish": `+want)
	}
	err := numbers.Publish(t.Context(), strings.Repeat("\n", 10_000), 1)
	require.ErrorContains(t, err, "its ID has 20002 bytes, and may have 16384", "with quotes")
	require.NoError(t, numbers.Publish(t.Context(), strings.Repeat("x", 16<<10), 1))

	typed := inlet(t, embed(t, t.TempDir(), nats.Store{}), "typed", nats.Options[int]{Codec: nats.JSON[int]{Type: strings.Repeat("t", 70_000)}})
	require.ErrorContains(t, typed.Publish(t.Context(), "1", 1), "message too large: its type has 70000 bytes, and may have 16384")
}

// Another program has published a message whose headers are as large as the server takes.
func TestTheLetterOfAMessageWithLargeHeadersIsStored(t *testing.T) {
	conn := embed(t, t.TempDir(), nats.Store{})
	numbers := inlet(t, conn, "numbers", nats.Options[int]{UntilEmpty: true, Retry: stage.RetryPolicy{Attempts: 1}})
	_, err := conn.JetStream().PublishMsg(t.Context(), &natsgo.Msg{Subject: "golda.inlet.numbers", Data: []byte("1"), Header: natsgo.Header{
		"Golda-Version": {"0"}, jetstream.MsgIDHeader: {strings.Repeat("x", 65_000)},
	}})
	require.NoError(t, err)
	run(t, numbers, stage.Sink("fail", func(context.Context, int) error { return errors.New("no") }))
	require.EqualValues(t, 1, status(t, numbers).Buried)
}

// A chain of commands has two IDs in each message.
func TestTheLongestIDsAreHandledAndMakeLetters(t *testing.T) {
	longest := func(n int) string { return fmt.Sprintf("%016384d", n) }
	numbers := inlet(t, embed(t, t.TempDir(), nats.Store{}), "numbers", nats.Options[int]{
		MaxMessages: 100, UntilEmpty: true, Retry: stage.RetryPolicy{Attempts: 1}, Codec: nats.JSON[int]{Type: strings.Repeat("t", 16<<10)},
	})
	for n := range 3 {
		require.NoError(t, numbers.Publish(t.Context(), longest(n), n))
	}
	run(t, numbers, stage.Sink("fail", func(context.Context, int) error { return errors.New("no") }))
	letters := 0
	for l, err := range numbers.Letters(t.Context()) {
		require.NoError(t, err)
		require.Len(t, l.ID, 16<<10)
		letters++
	}
	require.Equal(t, 3, letters)
}
