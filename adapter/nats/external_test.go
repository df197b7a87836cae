package nats_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/nats"
)

// debianServer returns the program of Debian's package nats-server. It must be there where all tests must run.
func debianServer(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"nats-server", "/usr/sbin/nats-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	require.NotEqual(t, "required", os.Getenv("GOLDA_BROKERS"), "there is no nats-server, and GOLDA_BROKERS is required: apt-get install nats-server")
	t.Skip("there is no nats-server: apt-get install nats-server")
	return ""
}

// asServer has the test program be nats-server, of the version in go.mod.
const asServer = "GOLDA_NATS_SERVER"

// serveNATS is nats-server with arguments.
func serveNATS(args []string) error {
	opts, err := server.ConfigureOptions(flag.NewFlagSet("nats-server", flag.ContinueOnError), args, func() {}, func() {}, func() {})
	if err != nil {
		return err
	}
	s, err := server.NewServer(opts)
	if err != nil {
		return err
	}
	s.ConfigureLogger()
	s.Start()
	s.WaitForShutdown()
	return nil
}

// external is a server that is a process of its own.
type external struct {
	program, dir, address string // an empty program is the server in go.mod
	config                string // a file, in the place of dir and address; empty if there is none
	cmd                   *exec.Cmd
	log                   bytes.Buffer
	more                  []string // arguments
}

// startExternal starts a server, which is stopped at the end of the test, and waits until it serves.
func startExternal(t *testing.T) *external {
	t.Helper()
	e := &external{program: debianServer(t), dir: t.TempDir(), address: addresses(t, 1)[0]}
	e.start(t)
	t.Cleanup(func() { e.end(t) })
	e.await(t)
	return e
}

// addresses returns addresses of loopback that are free. They are none of those that the system chooses for connections and for other
// listeners: it would take one before a server listens there.
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

// startCluster starts a cluster of three servers of the version in go.mod, and returns them when all of them serve and have a leader. Servers
// of Debian's 2.9.10 have lost a message that they had confirmed, when two of three were killed at once.
func startCluster(t testing.TB) (all []*external) {
	t.Helper()
	at := addresses(t, 6)
	for k := range 3 {
		all = append(all, &external{dir: t.TempDir(), address: at[k], more: []string{
			"-n", "n" + strconv.Itoa(k), "-cluster_name", "c", "-cluster", "nats://" + at[3+k],
			"-routes", "nats://" + at[3] + ",nats://" + at[4] + ",nats://" + at[5],
		}})
		all[k].start(t)
		t.Cleanup(func() { all[k].end(t) })
	}
	for _, e := range all {
		e.await(t)
	}
	return all
}

// urls returns the URLs of servers.
func urls(all []*external) (urls []string) {
	for _, e := range all {
		urls = append(urls, "nats://"+e.address)
	}
	return urls
}

// await waits until the server serves.
func (e *external) await(t testing.TB) {
	t.Helper()
	await(t, "the server runs", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		conn, err := nats.Connect(ctx, "nats://"+e.address)
		if err == nil {
			shut(t, conn)
		}
		return err == nil
	})
}

// end kills the server, and logs what it has said if the test has failed.
func (e *external) end(t testing.TB) {
	_ = e.cmd.Process.Kill() // it has ended, if that is not possible
	_ = e.cmd.Wait()
	if t.Failed() {
		t.Log(e.log.String())
	}
}

func (e *external) start(t testing.TB) {
	t.Helper()
	e.log.Reset()
	program := cmp.Or(e.program, os.Args[0])
	e.cmd = exec.CommandContext(context.WithoutCancel(t.Context()), program, e.arguments(t)...)
	if e.program == "" {
		e.cmd.Env = append(os.Environ(), asServer+"=1")
	}
	e.cmd.Stderr = &e.log
	require.NoError(t, e.cmd.Start())
}

func (e *external) arguments(t testing.TB) []string {
	t.Helper()
	if e.config != "" {
		return []string{"-c", e.config}
	}
	host, port, err := net.SplitHostPort(e.address)
	require.NoError(t, err)
	return append([]string{"-a", host, "-p", port, "-js", "-sd", e.dir}, e.more...)
}

// listens reports whether something accepts connections at an address.
func listens(address string) bool {
	c, err := net.Dial("tcp", address)
	if err == nil {
		_ = c.Close()
	}
	return err == nil
}

// kill kills the server, which may be started again.
func (e *external) kill(t testing.TB) {
	t.Helper()
	require.NoError(t, e.cmd.Process.Kill())
	_ = e.cmd.Wait() // the status says that a signal ended it
}

// stop stops the server as an operator does.
func (e *external) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, e.cmd.Process.Signal(syscall.SIGTERM))
	_ = e.cmd.Wait() // the status says that a signal ended it
}

// Three processes, each with a pipeline, and a server of Debian's package, which is older than the client. Process 0 publishes. Process 1 is killed,
// process 2 stands still, process 0 is cut off from the server. Then the server stands still, and is started again.
func TestThreeProcessesWithAServerOfDebianSurviveFaults(t *testing.T) {
	lasts(t)
	if race {
		t.Skip("under the race detector the elections of three processes may take minutes")
	}
	t.Parallel()
	e := startExternal(t)
	conn := connect(t, "nats://"+e.address)
	dir := t.TempDir()
	var all [3]*process
	var links [3]*proxy
	for k := range all {
		links[k] = newProxy(t, e.address)
		all[k] = job{Name: "p" + strconv.Itoa(k), Dir: dir, URL: "nats://" + links[k].address(), Publish: k == 0}.spawn(t)
	}
	for _, p := range all {
		goOn(t, "all work", p)
	}

	all[1].kill(t)
	goOn(t, "the others go on without the process that was killed", all[0], all[2])
	killed := all[1]
	all[1] = killed.spawn(t)
	goOn(t, "the process that was killed works again", all[1])

	standStill(t, all[2].cmd.Process, func() { goOn(t, "the others go on without the process that stands still", all[0], all[1]) })
	goOn(t, "the process that stood still works again", all[2])

	enoughToDo(t, conn)
	away := all[0].report().Away
	links[0].cut()
	goOn(t, "the others go on without the process that is cut off", all[1], all[2])
	await(t, "the process that is cut off is away", func() bool { return all[0].report().Away > away && all[0].report().Feed == "away" })
	links[0].heal()
	goOn(t, "the process that was cut off works again", all[0])

	away = all[0].report().Away
	standStill(t, e.cmd.Process, func() {
		await(t, "the server does not answer", func() bool { return all[0].report().Away > away })
	})
	goOn(t, "all go on", all[0])
	e.stop(t)
	await(t, "the feeds are away", func() bool { return all[0].report().Feed == "away" && all[1].report().Feed == "away" })
	e.start(t)
	for _, p := range all {
		goOn(t, "all go on", p)
	}

	books{alive: all[:], killed: []*process{killed}}.balance(t, conn, all[0])
	for _, p := range all {
		p.stop(t)
	}
}

// A server that says which version it is, and knows nothing else.
func TestAServerThatIsTooOldIsRefused(t *testing.T) {
	for version, want := range map[string]string{
		"2.8.4": "the server has the version 2.8.4, and an inlet needs 2.9.0 at least", "1.4.1": "the version 1.4.1, and", "2.9.0": "jetstream not enabled",
		"2.10.0-RC.1": "jetstream not enabled", "3.0.0": "jetstream not enabled", "dev": "jetstream not enabled",
	} {
		t.Run(version, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			var serving sync.WaitGroup
			defer serving.Wait()
			defer func() { require.NoError(t, l.Close()) }()
			serving.Go(func() { pretend(l, version, true) })
			_, err = nats.Connect(t.Context(), "nats://"+l.Addr().String())
			require.ErrorContains(t, err, want)
			require.ErrorContains(t, err, l.Addr().String())
		})
	}
}

// The permissions of a server, or a cluster without a leader, may have it say nothing about JetStream.
func TestAConnectThatEndsSaysWhatItWaitedFor(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var serving sync.WaitGroup
	defer serving.Wait()
	defer func() { require.NoError(t, l.Close()) }()
	serving.Go(func() { pretend(l, "3.0.0", false) })
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err = nats.Connect(ctx, "nats://"+l.Addr().String())
	require.ErrorIs(t, err, nats.ErrAway)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "the server has not said whether it has JetStream")
}

// pretend serves one connection: it greets with a version, answers pings, and says, or does not say, that there is no JetStream.
func pretend(l net.Listener, version string, says bool) {
	c, err := l.Accept()
	if err != nil {
		return
	}
	defer func() { _ = c.Close() }()
	fmt.Fprintf(c, `INFO {"server_id":"x","version":%q,"proto":1,"headers":true,"max_payload":1048576}`+"\r\n", version)
	for lines := bufio.NewScanner(c); lines.Scan(); {
		words := strings.Fields(lines.Text())
		switch {
		case len(words) == 0:
		case words[0] == "PING":
			fmt.Fprint(c, "PONG\r\n")
		case says && words[0] == "PUB" && len(words) == 4:
			fmt.Fprintf(c, "HMSG %s 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n", words[2])
		}
	}
}
