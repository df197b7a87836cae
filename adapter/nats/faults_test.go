package nats_test

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/nats"
)

// standStill has a process stand still for longer than AckWait, and until meanwhile returns. GOLDA_TEST_FREEZE=10s makes it longer.
func standStill(t *testing.T, p *os.Process, meanwhile func()) {
	t.Helper()
	long := 2 * underFaults.AckWait
	if text := os.Getenv("GOLDA_TEST_FREEZE"); text != "" {
		var err error
		long, err = time.ParseDuration(text)
		require.NoError(t, err)
	}
	require.NoError(t, p.Signal(sigStop))
	over := time.After(long)
	meanwhile()
	<-over
	require.NoError(t, p.Signal(sigCont))
}

// Three processes, each with a pipeline, and a cluster of three servers of Debian's package. Process 0 publishes. A server is killed, one stands
// still, and two are gone. Elections take up to ten seconds each.
func TestThreeProcessesWithAClusterOfServersSurviveFaults(t *testing.T) {
	lasts(t)
	if race {
		t.Skip("under the race detector the elections of three servers may take minutes")
	}
	t.Parallel()
	servers := startCluster(t)
	conn := connect(t, strings.Join(urls(servers), ","))
	defer func() {
		if t.Failed() {
			describe(t, conn)
		}
	}()
	o := underFaults
	o.Replicas = 3 // which the processes keep, since they do not say it
	inlet(t, conn, "numbers", o)
	_, err := conn.JetStream().CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "ledger", Replicas: 3})
	require.NoError(t, err)
	dir := t.TempDir()
	var all [3]*process
	for k := range all {
		all[k] = job{Name: "p" + strconv.Itoa(k), Dir: dir, URL: strings.Join(urls(servers), ","), Publish: k == 0}.spawn(t)
	}
	allGoOn := func(what string) {
		for _, p := range all {
			goOn(t, what, p)
		}
	}
	allGoOn("all work")

	servers[1].kill(t)
	allGoOn("all go on without the server that was killed")
	servers[1].start(t)
	caughtUp(t, conn, "GOLDA_numbers", "GOLDA_numbers_DEAD", "KV_ledger")

	standStill(t, servers[2].cmd.Process, func() {})
	allGoOn("all go on after a server has stood still")
	caughtUp(t, conn, "GOLDA_numbers", "GOLDA_numbers_DEAD", "KV_ledger")

	away := all[0].report().Away
	servers[0].kill(t)
	servers[1].kill(t)
	await(t, "one server of three refuses", func() bool { return all[0].report().Away > away })
	await(t, "a feed is away", func() bool { return all[0].report().Feed == "away" })
	made := make(chan error, 1)
	go func() {
		_, err := nats.NewInlet(t.Context(), conn, "others", nats.Options[int]{Replicas: 3})
		made <- err
	}()
	servers[0].start(t)
	servers[1].start(t)
	allGoOn("all go on when the servers are back")
	require.NoError(t, <-made, "an inlet waits for the servers that it needs")

	books{alive: all[:]}.balance(t, conn, all[0])
	for _, p := range all {
		p.stop(t)
	}
}

// enoughToDo waits until there is enough to do for processes that are cut off from the publisher.
func enoughToDo(t *testing.T, conn *nats.Conn) {
	t.Helper()
	await(t, "there is enough to do for those that are not cut off from the publisher", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		s, err := conn.Status(ctx, "numbers")
		return err == nil && s.Pending >= 200
	})
}

// describe logs what the server knows of its streams and consumers.
func describe(t *testing.T, conn *nats.Conn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	streams := conn.JetStream().ListStreams(ctx)
	for info := range streams.Info() {
		text, _ := json.Marshal(info)
		t.Logf("stream: %s", text)
		stream, err := conn.JetStream().Stream(ctx, info.Config.Name)
		if err != nil {
			t.Log(err)
			continue
		}
		consumers := stream.ListConsumers(ctx)
		for c := range consumers.Info() {
			text, _ := json.Marshal(c)
			t.Logf("consumer: %s", text)
		}
		t.Log(consumers.Err())
	}
	t.Log(streams.Err())
}

// caughtUp waits until all three servers have all messages of streams. A server that was away gets the missing messages at once, or when the next snapshot is taken: then it
// takes two minutes and more.
func caughtUp(t *testing.T, conn *nats.Conn, streams ...string) {
	t.Helper()
	await(t, "all servers have all messages", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		for _, name := range streams {
			stream, err := conn.JetStream().Stream(ctx, name)
			if err != nil || !current(stream.CachedInfo().Cluster) {
				return false
			}
		}
		return true
	})
}

// current reports whether all three servers have all of a stream.
func current(c *jetstream.ClusterInfo) bool {
	if c == nil || len(c.Replicas) != 2 {
		return false
	}
	return !slices.ContainsFunc(c.Replicas, func(r *jetstream.PeerInfo) bool { return !r.Current || r.Offline })
}
