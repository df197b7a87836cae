package nats_test

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/adapter/nats/fleet"
	"github.com/golda-dev/golda/adapter/nats/jobs"
	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/reason"
)

// configurations returns the configurations in docs/nats-server.md: that of a server, and what a server of a cluster has in addition.
func configurations(t *testing.T) (one, cluster string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "nats-server.md"))
	require.NoError(t, err)
	parts := strings.Split(string(text), "```conf\n")
	require.Len(t, parts, 3)
	one, _, _ = strings.Cut(parts[1], "```")
	cluster, _, _ = strings.Cut(parts[2], "```")
	return one, cluster
}

// The hash in the configurations, and one of the same password that takes little
// time to check: under the race detector a check of the first takes seconds, and
// the server asks for a sign of life meanwhile, which a client does not expect.
const (
	hashOfThePage = "$2y$11$PwcLdqm.UQIOsppgJOQdkuWpykEgSnq7hZnDQ7TXuhhb.pvxkmI9O"
	quickHash     = "$2y$04$T3SIwRmYxgy2C8uo/k6iaOQ8UfBh33PG6Up4LL.c.B5OuYsVtD576"
)

// site has the certificates, in a directory, and the addresses that the configurations name.
type site struct {
	dir    string
	routes []string // of the servers of a cluster
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{dir: t.TempDir(), routes: addresses(t, 3)}
	cert, _ := certificate(t, time.Now().Add(time.Hour))
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	require.NoError(t, err)
	block := func(name, kind string, data []byte) {
		require.NoError(t, os.WriteFile(filepath.Join(s.dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}), 0o600))
	}
	block("server.pem", "CERTIFICATE", cert.Certificate[0])
	block("ca.pem", "CERTIFICATE", cert.Certificate[0])
	block("server-key.pem", "PRIVATE KEY", key)
	return s
}

// server returns the address of server k, of 0 to 2, and the file of its configuration.
func (s *site) server(t *testing.T, k int, text string) (address, file string) {
	t.Helper()
	own := addresses(t, 2)
	changes := []string{
		"0.0.0.0:4222", own[0], "127.0.0.1:8222", own[1], "0.0.0.0:6222", s.routes[k], "server_name: nats1", fmt.Sprint("server_name: nats", k+1),
		"/var/lib/nats", filepath.Join(s.dir, fmt.Sprint("store", k)), "/etc/nats/", s.dir + "/",
	}
	for k, route := range s.routes {
		changes = append(changes, fmt.Sprintf("nats%d.example.com:6222", k+1), route)
	}
	file = filepath.Join(s.dir, fmt.Sprint("server", k, ".conf"))
	require.NoError(t, os.WriteFile(file, []byte(strings.NewReplacer(changes...).Replace(text)), 0o600))
	return own[0], file
}

// connect connects as a user, and has the errors that the server reports without having been asked.
func (s *site) connect(t *testing.T, user string, servers ...string) (*nats.Conn, <-chan error) {
	t.Helper()
	refused := make(chan error, 100)
	conn := connect(t, "tls://"+strings.Join(servers, ",tls://"), natsgo.UserInfo(user, "shop-secret"),
		natsgo.RootCAs(filepath.Join(s.dir, "ca.pem")), natsgo.Timeout(10*time.Second),
		natsgo.ErrorHandler(func(_ *natsgo.Conn, _ *natsgo.Subscription, err error) {
			select {
			case refused <- err:
			default:
			}
		}))
	return conn, refused
}

func nothingWasRefused(t *testing.T, refused <-chan error) {
	t.Helper()
	select {
	case err := <-refused:
		require.NoError(t, err)
	default:
	}
}

// serve starts a server of the version of go.mod, inside this process, and returns its address.
func (s *site) serve(t *testing.T) (address string) {
	t.Helper()
	one, _ := configurations(t)
	require.Contains(t, one, hashOfThePage)
	address, file := s.server(t, 0, strings.ReplaceAll(one, hashOfThePage, quickHash))
	o, err := server.ProcessConfigFile(file)
	require.NoError(t, err)
	serve(t, o)
	return address
}

// onEachServer runs a test with the configuration of one server: with the version of go.mod, inside this process, and with Debian's.
func onEachServer(t *testing.T, test func(t *testing.T, s *site, address string)) {
	t.Helper()
	one, _ := configurations(t)
	t.Run("of go.mod", func(t *testing.T) {
		s := newSite(t)
		test(t, s, s.serve(t))
	})
	t.Run("of Debian", func(t *testing.T) {
		s := newSite(t)
		address, file := s.server(t, 0, one)
		e := &external{program: debianServer(t), config: file}
		e.start(t)
		t.Cleanup(func() { e.end(t) })
		test(t, s, address)
	})
}

func TestAPlainInletNeedsThePermissionsThatTheDocumentationLists(t *testing.T) {
	onEachServer(t, func(t *testing.T, s *site, address string) {
		eventually(t, "the server listens", func() bool { return listens(address) })
		conn, refused := s.connect(t, "shop", address)
		numbers := inlet(t, conn, "numbers", nats.Options[int]{Retry: stage.RetryPolicy{Attempts: 2, Backoff: time.Millisecond}})
		publish(t, numbers, 8)
		begun := make(chan struct{})
		p := start(t, numbers, stage.Sink("do", func(ctx context.Context, k int) error {
			switch k {
			case 7:
				return errors.New("failing")
			case 8:
				close(begun)
				<-ctx.Done() // of a hard stop
				return ctx.Err()
			}
			return nil
		}))
		eventually(t, "one number is a dead letter", func() bool { return status(t, numbers).Buried == 1 && numbers.Counts().InFlight == 0 })
		added, err := numbers.PublishOnce(t.Context(), "8", 8)
		require.NoError(t, err)
		require.True(t, added)
		<-begun
		ended, stop := context.WithCancel(t.Context())
		stop()
		_ = p.Stop(ended)
		eventually(t, "the number is given back", func() bool { return numbers.Counts().GivenBack > 0 && numbers.Counts().InFlight == 0 })
		var letters []nats.Letter
		for l, err := range numbers.Letters(t.Context()) {
			require.NoError(t, err)
			letters = append(letters, l)
		}
		require.Len(t, letters, 1)
		require.Equal(t, reason.Error, letters[0].Reason)
		require.NoError(t, numbers.Retry(t.Context(), letters[0]))
		// The server has confirmed these. Status.Pending is no measure here: nats-server 2.9 may count a message that was given back twice.
		eventually(t, "the others are done", func() bool { c := numbers.Counts(); return c.Acknowledged == 7 && c.DeadLettered == 1 })
		nothingWasRefused(t, refused)
		require.NoError(t, conn.Healthy())
	})
}

func TestAJobQueueNeedsThePermissionsThatTheDocumentationLists(t *testing.T) {
	s := newSite(t)
	address := s.serve(t)
	eventually(t, "the server listens", func() bool { return listens(address) })
	feeding, refused := s.connect(t, "shop", address)
	changing, refusedToo := s.connect(t, "shop", address)
	begun := make(chan struct{})
	newPipeline(t, stage.Sink("work", func(ctx context.Context, _ string) error {
		begun <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}), inlet(t, feeding, "jobs", ofLanes()).Feed)
	queue := inlet(t, changing, "jobs", ofLanes())
	publishJob(t, queue, jobs.Spec{ID: "a", In: time.Hour}, "bulk a")
	moved, err := queue.SetLane(t.Context(), row(t, queue, jobs.Filter{}), "urgent")
	require.NoError(t, err)
	require.True(t, moved)
	due, err := queue.RunNow(t.Context(), row(t, queue, jobs.Filter{Lane: "urgent"}))
	require.NoError(t, err)
	require.True(t, due)
	<-begun
	canceled, err := queue.Cancel(t.Context(), row(t, queue, jobs.Filter{State: jobs.InFlight}))
	require.NoError(t, err)
	require.True(t, canceled)
	nothingWasRefused(t, refused)
	nothingWasRefused(t, refusedToo)
	require.NoError(t, errors.Join(feeding.Healthy(), changing.Healthy()))
}

// Calls do not notice each refusal, so the error handler of the connection collects them.
func TestStagesInSeveralProcessesNeedThePermissionsThatTheDocumentationLists(t *testing.T) {
	t.Parallel()
	onEachServer(t, func(t *testing.T, s *site, address string) {
		eventually(t, "the server listens", func() bool { return listens(address) })
		conn, refused := s.connect(t, "scans", address)
		others, refusedToo := s.connect(t, "scans", address)
		doubles := func() *stage.Stage[int] {
			return stage.Func("far", func(_ context.Context, n int) behaviour.Outcome { return behaviour.OK(2 * n) })
		}
		half(t, others, "b", doubles)
		far, _ := half(t, conn, "a", doubles)
		for n := range 100 {
			got, err := call[int](t, far, n)
			require.NoError(t, err)
			require.Equal(t, 2*n, got)
		}
		b, well := newBook(), func(step) error { return nil }
		_, route := ledger(t, conn, "front", "front", b, well)
		ledger(t, others, "back", "first", b, well)
		ledger(t, conn, "back", "second", b, well)
		for n := range 100 {
			require.NoError(t, route.Submit(t.Context(), step{fmt.Sprint("account ", n), 1}))
		}
		eventually(t, "all steps are handled", func() bool { return b.handled() == 100 })
		outcomes, err := conn.Outcomes(t.Context(), "ledger", 0)
		require.NoError(t, err)
		_, err = nats.Once(t.Context(), outcomes, "7", func(context.Context) (int, error) { return 7, nil })
		require.NoError(t, err)
		for k, conn := range []*nats.Conn{conn, others} {
			p, err := pipeline.New("scans", stage.Sink("do", func(context.Context, int) error { return nil }), quiet)
			require.NoError(t, err)
			f, err := fleet.Join(t.Context(), conn, p, fleet.Options{Name: fmt.Sprint("p", k)})
			require.NoError(t, err)
			defer func() { require.NoError(t, f.Leave(context.Background())) }()
			eventually(t, "it knows all processes", func() bool {
				all, err := f.Snapshot(t.Context())
				require.NoError(t, err)
				return len(all.Processes) == k+1
			})
		}
		nothingWasRefused(t, refused)
		nothingWasRefused(t, refusedToo)
	})
}

func TestAServerStartsAgainWithACopyOfItsDirectory(t *testing.T) {
	t.Parallel()
	one, _ := configurations(t)
	s := newSite(t)
	address, file := s.server(t, 0, one)
	e := &external{program: debianServer(t), config: file}
	e.start(t)
	eventually(t, "the server listens", func() bool { return listens(address) })
	conn, _ := s.connect(t, "shop", address)
	publish(t, inlet(t, conn, "numbers", nats.Options[int]{}), 20)
	e.stop(t)
	store := filepath.Join(s.dir, "store0")
	require.NoError(t, os.CopyFS(filepath.Join(s.dir, "copy"), os.DirFS(store)))
	require.NoError(t, os.RemoveAll(store))
	require.NoError(t, os.Rename(filepath.Join(s.dir, "copy"), store))
	e.start(t)
	defer e.end(t)
	eventually(t, "the process has connected again", func() bool { return conn.Healthy() == nil })
	require.EqualValues(t, 20, status(t, inlet(t, conn, "numbers", nats.Options[int]{})).Pending)
}

// The network between the process and its server is cut without an end of the connection, as by a machine that loses its power.
func TestAProcessLeavesAServerThatIsSilent(t *testing.T) {
	lasts(t)
	if runtime.GOOS == "windows" {
		t.Skip("there are no such signals")
	}
	t.Parallel()
	all := startCluster(t)
	conn := connect(t, strings.Join(urls(all), ","))
	numbers := inlet(t, conn, "numbers", nats.Options[int]{Replicas: 3})
	publish(t, numbers, 1)
	for _, e := range all {
		if strings.HasSuffix(conn.JetStream().Conn().ConnectedUrl(), e.address) {
			require.NoError(t, e.cmd.Process.Signal(sigStop))
			defer func() { require.NoError(t, e.cmd.Process.Signal(sigCont)) }()
			break
		}
	}
	publishes := func() bool {
		short, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		return numbers.Publish(short, "1", 1) == nil
	}
	await(t, "the server is silent", func() bool { return !publishes() })
	await(t, "another server takes a message", publishes)
}

func TestTheClusterOfTheDocumentationGoesOnWithoutOneServer(t *testing.T) {
	t.Parallel()
	lasts(t)
	one, cluster := configurations(t)
	s := newSite(t)
	var all []*external
	var at []string
	for k := range 3 {
		address, file := s.server(t, k, one+cluster)
		e := &external{program: debianServer(t), config: file}
		e.start(t)
		t.Cleanup(func() { e.end(t) })
		all, at = append(all, e), append(at, address)
	}
	for _, address := range at {
		await(t, "the server listens", func() bool { return listens(address) })
	}
	await(t, "there is a leader", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		conn, err := nats.Connect(ctx, "tls://"+at[0], natsgo.UserInfo("shop", "shop-secret"), natsgo.RootCAs(filepath.Join(s.dir, "ca.pem")))
		if err == nil {
			shut(t, conn)
		}
		return err == nil
	})
	conn, refused := s.connect(t, "shop", at...)
	numbers := inlet(t, conn, "numbers", nats.Options[int]{Replicas: 3})
	publish(t, numbers, 20)
	all[1].kill(t)
	await(t, "two servers take a message", func() bool { return numbers.Publish(t.Context(), "20", 20) == nil })
	await(t, "they have all", func() bool {
		at, err := numbers.Status(t.Context())
		return err == nil && at.Pending == 21
	})
	nothingWasRefused(t, refused)
}
