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

	natsgo "github.com/nats-io/nats.go"
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

// Three processes, each with a member of the cluster and a pipeline. Process 0 publishes. Process 1 is killed, process 2 stands still, process 0 is
// cut off from the others. Elections take up to ten seconds each, so this takes most of a minute.
func TestThreeProcessesWithAClusterSurviveFaults(t *testing.T) {
	if race {
		t.Skip("under the race detector the elections of three processes may take minutes")
	}
	t.Parallel()
	const n = 3
	routes, clients := addresses(t, n), addresses(t, n)
	dir := t.TempDir()
	var links [n][]*proxy // that touch a member
	jobs := make([]job, n)
	for from := range n {
		members := []string{routes[from]}
		for to := range n {
			if to != from {
				p := newProxy(t, routes[to])
				members = append(members, p.address())
				links[from], links[to] = append(links[from], p), append(links[to], p)
			}
		}
		name := "m" + strconv.Itoa(from)
		jobs[from] = job{Name: name, Dir: dir, Publish: from == 0, Cluster: nats.Cluster{
			Name: name, Listen: routes[from], Members: members, Secret: secret, Clients: clients[from],
			Advertise: "127.0.0.1:1", // so that no member finds a way around the proxies
		}}
	}
	var all [n]*process
	for k, j := range jobs {
		all[k] = j.spawn(t)
	}
	goOn(t, "all work", all[0])
	goOn(t, "all work", all[1])
	goOn(t, "all work", all[2])
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, err := nats.Connect(ctx, "nats://"+strings.Join(clients, ",nats://"), natsgo.UserInfo("golda", secret))
	require.NoError(t, err)
	defer shut(t, conn)
	defer func() {
		if t.Failed() {
			describe(t, conn)
		}
	}()

	all[1].kill(t)
	goOn(t, "the others go on without the process that was killed", all[0], all[2])
	killed := all[1]
	all[1] = jobs[1].spawn(t)
	goOn(t, "the process that was killed works again", all[1])
	caughtUp(t, conn, "GOLDA_numbers", "GOLDA_numbers_DEAD", "KV_ledger")

	standStill(t, all[2].cmd.Process, func() { goOn(t, "the others go on without the process that stands still", all[0], all[1]) })
	goOn(t, "the process that stood still works again", all[2])
	caughtUp(t, conn, "GOLDA_numbers", "GOLDA_numbers_DEAD", "KV_ledger")

	enoughToDo(t, conn)
	for _, l := range links[0] {
		l.cut()
	}
	away := all[0].report().Away
	goOn(t, "the others go on without the process that is cut off", all[1], all[2])
	await(t, "the process that is cut off is away", func() bool { return all[0].report().Away > away })
	published := all[0].report().Next
	for _, l := range links[0] {
		l.heal()
	}
	goOn(t, "the process that was cut off works again", all[0])
	await(t, "it publishes again", func() bool { return all[0].report().Next > published })
	caughtUp(t, conn, "GOLDA_numbers", "GOLDA_numbers_DEAD", "KV_ledger")

	books{alive: all[:], killed: []*process{killed}}.balance(t, conn, all[0])
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

// caughtUp waits until all members have all messages of streams. A member that was away gets what it lacks at once, or when the next snapshot is taken: then it
// takes two minutes and more.
func caughtUp(t *testing.T, conn *nats.Conn, streams ...string) {
	t.Helper()
	await(t, "all members have all messages", func() bool {
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

// current reports whether all three members have all of a stream.
func current(c *jetstream.ClusterInfo) bool {
	if c == nil || len(c.Replicas) != 2 {
		return false
	}
	return !slices.ContainsFunc(c.Replicas, func(r *jetstream.PeerInfo) bool { return !r.Current || r.Offline })
}
