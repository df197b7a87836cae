package nats_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/stage"
)

const secret = "a secret of the members"

// addresses returns addresses of loopback that are free. They are none of those that the system chooses for connections and for other
// listeners: it would take one before a member listens there.
func addresses(t testing.TB, n int) (all []string) {
	t.Helper()
	for len(all) < n {
		address := "127.0.0.1:" + strconv.Itoa(20_000+rand.IntN(12_000))
		l, err := net.Listen("tcp", address)
		if err != nil {
			continue // it is taken
		}
		require.NoError(t, l.Close())
		if _, taken := given.LoadOrStore(address, true); !taken {
			all = append(all, address)
		}
	}
	return all
}

// given has the addresses that a test got.
var given sync.Map

// clusterOf returns the options of so many members.
func clusterOf(t testing.TB, n int) (all []nats.Cluster) {
	t.Helper()
	members := addresses(t, n)
	for k, address := range members {
		all = append(all, nats.Cluster{Name: "m" + strconv.Itoa(k), Members: members, Listen: address, Secret: secret})
	}
	return all
}

// join joins a member. It is stopped at the end of the test, if not before.
func join(t testing.TB, dir string, c nats.Cluster) *nats.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	conn, err := nats.Join(ctx, filepath.Join(dir, c.Name), nats.Store{}, c)
	if assert.NoError(t, err) {
		t.Cleanup(func() { shut(t, conn) })
	}
	return conn
}

// joinAll joins all members at once.
func joinAll(t testing.TB, dir string, all []nats.Cluster) []*nats.Conn {
	t.Helper()
	conns := make([]*nats.Conn, len(all))
	var joining sync.WaitGroup
	for k, c := range all {
		joining.Go(func() { conns[k] = join(t, dir, c) })
	}
	joining.Wait()
	require.False(t, t.Failed())
	return conns
}

func TestThreeMembersShareAnInlet(t *testing.T) {
	conns := joinAll(t, t.TempDir(), clusterOf(t, 3))
	inlets := make([]*nats.Inlet[int], len(conns))
	var making sync.WaitGroup
	for k, conn := range conns {
		making.Go(func() {
			i, err := nats.NewInlet(t.Context(), conn, "numbers", nats.Options[int]{})
			assert.NoError(t, err)
			inlets[k] = i
		})
	}
	making.Wait()
	require.False(t, t.Failed())
	publish(t, inlets[0], 100)
	var done tally
	for _, i := range inlets {
		start(t, i, stage.Sink("do", func(_ context.Context, k int) error { done.add(k); return nil }))
	}
	eventually(t, "all are done", func() bool { return done.len() == 100 })
	eventually(t, "the server knows", func() bool { return status(t, inlets[1]) == nats.Status{Published: 100} })
	stream, err := conns[2].JetStream().Stream(t.Context(), "GOLDA_numbers")
	require.NoError(t, err)
	require.Equal(t, 3, stream.CachedInfo().Config.Replicas)
}

func TestAClusterIsChecked(t *testing.T) {
	for name, c := range map[string]struct {
		c    nats.Cluster
		want []string
	}{
		"nothing is set": {nats.Cluster{}, []string{
			`nats: store in "`, `Cluster.Name is ""`, "Cluster.Members has 0 addresses; list those of all members, of this one too: an odd number, at least 3",
			`Cluster.Listen is "", which is not of the form host:port`, "Cluster.Secret has 0 bytes, and must have at least 16",
		}},
		"all is wrong": {
			nats.Cluster{
				Name: "a b", Members: []string{"a", ":7001", "a:70000", "b:0", "a"}, Listen: "a", Advertise: "b", Clients: "c", Secret: "short", TLS: &tls.Config{},
			}, []string{
				`Cluster.Name is "a b"`, `Members has "a", which`, `Members has ":7001", which`, `Members has "a:70000", which`, `Members has "b:0", which`,
				`Members has "a" twice`, `Listen is "a", which`, `Advertise is "b", which`, `Clients is "c", which`, "Secret has 5 bytes", "TLS has no certificate",
			},
		},
		"two members": {nats.Cluster{Members: []string{"a:1", "b:1"}}, []string{"Members has 2 addresses"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := nats.Join(t.Context(), t.TempDir(), nats.Store{}, c.c)
			for _, want := range c.want {
				require.ErrorContains(t, err, want)
			}
		})
	}
}

func TestAMemberAloneWaitsAndSaysWhichOthersAreMissing(t *testing.T) {
	c := clusterOf(t, 3)[0]
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	dir := t.TempDir()
	_, err := nats.Join(ctx, dir, nats.Store{}, c)
	require.ErrorIs(t, err, nats.ErrAway)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, `member "m0": the cluster has no leader: of the 2 others 0 are connected`)
	for _, other := range c.Members[1:] {
		require.ErrorContains(t, err, other+": connect: connection refused")
	}
	require.NotContains(t, err.Error(), c.Members[0]+": ")
	require.NotContains(t, err.Error(), secret)

	l, err := net.Listen("tcp", c.Listen)
	require.NoError(t, err, "the port is free again")
	_, err = nats.Join(t.Context(), dir, nats.Store{}, c)
	require.ErrorContains(t, err, "address already in use")
	require.NoError(t, l.Close())

	ended, stop := context.WithCancel(t.Context())
	stop()
	_, err = nats.Join(ended, dir, nats.Store{}, c)
	require.ErrorIs(t, err, context.Canceled)
}

func TestADirectoryBelongsToOneMember(t *testing.T) {
	all := clusterOf(t, 3)
	ended, stop := context.WithCancel(t.Context())
	stop()
	dir := t.TempDir()
	_, err := nats.Join(ended, dir, nats.Store{}, all[0])
	require.ErrorIs(t, err, context.Canceled)
	_, err = nats.Join(ended, dir, nats.Store{}, all[1])
	require.ErrorContains(t, err, `it belongs to the member "m0" of a cluster, not to "m1"`)
	_, err = nats.Embed(dir, nats.Store{})
	require.ErrorContains(t, err, `it belongs to the member "m0" of a cluster; use Join`)
	_, err = nats.Join(ended, dir, nats.Store{}, all[0])
	require.ErrorIs(t, err, context.Canceled, "its own")

	dir = t.TempDir()
	conn, err := nats.Embed(dir, nats.Store{})
	require.NoError(t, err)
	publish(t, inlet(t, conn, "numbers", nats.Options[int]{}), 3)
	_, err = nats.Join(t.Context(), dir, nats.Store{}, all[0])
	require.ErrorIs(t, err, nats.ErrLocked)
	shut(t, conn)
	_, err = nats.Join(t.Context(), dir, nats.Store{}, all[0])
	require.ErrorContains(t, err, "it belongs to a server without a cluster, and has the streams GOLDA_numbers, GOLDA_numbers_BACK, GOLDA_numbers_DEAD")
	require.EqualValues(t, 3, status(t, inlet(t, embed(t, dir, nats.Store{}), "numbers", nats.Options[int]{})).Pending, "nothing was changed")
}

// A member comes back with other credentials. The two others go on without it.
func TestAMemberThatIsNotTrustedStaysOutside(t *testing.T) {
	cert, pool := certificate(t, time.Now().Add(time.Hour))
	other, otherPool := certificate(t, time.Now().Add(time.Hour))
	trusted := &tls.Config{Certificates: []tls.Certificate{cert}, RootCAs: pool, MinVersion: tls.VersionTLS12}
	secure := natsgo.Secure(&tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12})
	for name, spoil := range map[string]struct {
		cluster func(*nats.Cluster)
		log     string // what the member says then
	}{
		"another secret": {func(c *nats.Cluster) { c.Secret = "another secret of 30 characters" }, "Authorization Violation"},
		"no TLS":         {func(c *nats.Cluster) { c.TLS = nil }, "authentication error"},
		"another certificate": {func(c *nats.Cluster) {
			c.TLS = &tls.Config{Certificates: []tls.Certificate{other}, RootCAs: pool, MinVersion: tls.VersionTLS12}
		}, "certificate"},
		"another authority": {func(c *nats.Cluster) {
			c.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, RootCAs: otherPool, MinVersion: tls.VersionTLS12}
		}, "certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it waits
			all := clusterOf(t, 3)
			for k := range all {
				all[k].TLS = trusted
			}
			clients := addresses(t, 1)[0]
			all[0].Clients = clients
			dir := t.TempDir()
			conns := joinAll(t, dir, all)
			shut(t, conns[2])
			spoil.cluster(&all[2])
			var log buffer
			ctx, cancel := context.WithCancel(t.Context())
			refused := make(chan error, 1)
			go func() {
				_, err := nats.Join(ctx, filepath.Join(dir, "m2"), nats.Store{Logger: slog.New(slog.NewTextHandler(&log, nil))}, all[2])
				refused <- err
			}()
			await(t, "it is refused", func() bool { return strings.Contains(log.String(), spoil.log) })
			cancel()
			err := <-refused
			require.ErrorIs(t, err, nats.ErrAway)
			require.ErrorContains(t, err, "the cluster has no leader")
			require.ErrorContains(t, err, "; one was refused: ") // the other connects again and again, and may count at this moment

			numbers := inlet(t, conns[1], "numbers", nats.Options[int]{Replicas: 1})
			publish(t, numbers, 10)
			client, err := nats.Connect(t.Context(), "tls://"+clients, natsgo.UserInfo("golda", secret), secure)
			require.NoError(t, err)
			defer shut(t, client)
			require.EqualValues(t, 10, status(t, inlet(t, client, "numbers", nats.Options[int]{})).Pending)
			_, err = nats.Connect(t.Context(), "tls://"+clients, natsgo.UserInfo("golda", all[2].Secret+"?"), secure)
			require.ErrorIs(t, err, natsgo.ErrAuthorization)
		})
	}
}

func TestADirectoryOfAMemberThatIsDamagedIsRefusedAndMadeAnew(t *testing.T) {
	t.Parallel() // it waits for elections
	dir, all := t.TempDir(), clusterOf(t, 3)
	conns := joinAll(t, dir, all)
	numbers := inlet(t, conns[0], "numbers", nats.Options[int]{})
	publish(t, numbers, 100)
	await(t, "the member has all", func() bool { return conns[2].Healthy() == nil })
	shut(t, conns[2])
	own := filepath.Join(dir, "m2")
	logs, err := filepath.Glob(filepath.Join(own, "jetstream", "$SYS", "_js_", "*", "*", "[s0-9]*[.kp0-9]")) // files of messages, and snapshots
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(logs), 4, "of the cluster, two streams and a consumer")
	stream := filepath.Join(own, "jetstream", "$G", "streams", "GOLDA_numbers")
	for _, file := range append(logs, filepath.Join(stream, "msgs", "1.blk"), filepath.Join(stream, "meta.inf")) {
		whole, err := os.ReadFile(file)
		require.NoError(t, err)
		if len(whole) == 0 {
			continue
		}
		damaged := bytes.Clone(whole)
		damaged[len(whole)/2] ^= 1
		require.NoError(t, os.WriteFile(file, damaged, 0o600))
		_, err = nats.Join(t.Context(), own, nats.Store{}, all[2])
		require.ErrorIs(t, err, nats.ErrCorrupt, file)
		require.ErrorContains(t, err, filepath.Base(filepath.Dir(file)))
		require.NoError(t, os.WriteFile(file, whole, 0o600))
	}
	require.NoError(t, os.RemoveAll(own))
	conns[2] = join(t, dir, all[2])
	await(t, "the member has caught up", func() bool { return conns[2].Healthy() == nil })
	shut(t, conns[0])
	numbers = inlet(t, conns[2], "numbers", nats.Options[int]{})
	require.EqualValues(t, 100, status(t, numbers).Pending, "the others have one member with the messages, and this one")
}

func TestWithoutAMajorityMembersRefuseAndGoOnLater(t *testing.T) {
	t.Parallel() // it waits for elections
	dir, all := t.TempDir(), clusterOf(t, 3)
	conns := joinAll(t, dir, all)
	numbers := inlet(t, conns[0], "numbers", nats.Options[int]{})
	publish(t, numbers, 10)
	var done tally
	p := start(t, numbers, stage.Sink("do", func(_ context.Context, k int) error { done.add(k); return nil }))
	eventually(t, "ten are done", func() bool { return done.len() == 10 })
	shut(t, conns[1])
	shut(t, conns[2])
	err := numbers.Publish(t.Context(), "10", 10)
	require.ErrorIs(t, err, nats.ErrAway)
	_, overloaded := stage.Overloaded(err)
	require.True(t, overloaded)
	await(t, "the member notices", func() bool { return errors.Is(conns[0].Healthy(), nats.ErrAway) })
	await(t, "the feed is away", func() bool { return p.Snapshot().Feeds[0].State == "away" })
	join(t, dir, all[1])
	await(t, "the number is published again", func() bool { return numbers.Publish(t.Context(), "10", 10) == nil })
	await(t, "it is done", func() bool { return done.len() == 11 })
	await(t, "the server knows", func() bool {
		s, err := numbers.Status(t.Context())
		return err == nil && s == nats.Status{Published: 11}
	})
}

// A client makes an inlet while its cluster has no leader, as after a fault.
func TestAClientOfAClusterWaitsForItsMembers(t *testing.T) {
	t.Parallel() // it waits for elections
	dir, all := t.TempDir(), clusterOf(t, 3)
	all[0].Clients = addresses(t, 1)[0]
	conns := joinAll(t, dir, all)
	client, err := nats.Connect(t.Context(), "nats://"+all[0].Clients, natsgo.UserInfo("golda", secret))
	require.NoError(t, err)
	defer shut(t, client)
	shut(t, conns[1])
	shut(t, conns[2])
	made := make(chan error, 1)
	try := func() {
		_, err := nats.NewInlet(t.Context(), client, "numbers", nats.Options[int]{})
		made <- err
	}
	go try()
	select {
	case err := <-made:
		require.NoError(t, err, "it waits for longer than for one answer of the server")
	case <-time.After(7 * time.Second):
	}
	join(t, dir, all[1])
	await(t, "the inlet is made", func() bool {
		err := <-made
		if err != nil { // the election took longer than that
			go try()
		}
		return err == nil
	})
}
