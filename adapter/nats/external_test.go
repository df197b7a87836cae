package nats_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/nats"
)

// debianServer returns the program of Debian's package nats-server. It must be there where all tests must run.
func debianServer(t *testing.T) string {
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

// external is a server that is a process of its own.
type external struct {
	program, dir, address string
	cmd                   *exec.Cmd
	log                   bytes.Buffer
}

func (e *external) start(t *testing.T) {
	t.Helper()
	host, port, err := net.SplitHostPort(e.address)
	require.NoError(t, err)
	e.log.Reset()
	e.cmd = exec.CommandContext(context.WithoutCancel(t.Context()), e.program, "-a", host, "-p", port, "-js", "-sd", e.dir)
	e.cmd.Stderr = &e.log
	require.NoError(t, e.cmd.Start())
}

// stop stops the server as an operator does.
func (e *external) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, e.cmd.Process.Signal(syscall.SIGTERM))
	_ = e.cmd.Wait() // its status is that of the signal
}

// Three processes, each with a pipeline, and a server of Debian's package, which is older than the client. Process 0 publishes. Process 1 is killed,
// process 2 stands still, process 0 is cut off from the server. Then the server stands still, and is started again.
func TestThreeProcessesWithAServerOfDebianSurviveFaults(t *testing.T) {
	if race {
		t.Skip("under the race detector the elections of three processes may take minutes")
	}
	t.Parallel()
	e := &external{program: debianServer(t), dir: t.TempDir(), address: addresses(t, 1)[0]}
	e.start(t)
	t.Cleanup(func() {
		_ = e.cmd.Process.Kill() // it has ended, if that is not possible
		_ = e.cmd.Wait()
		if t.Failed() {
			t.Log(e.log.String())
		}
	})
	var conn *nats.Conn
	await(t, "the server runs", func() (ok bool) {
		var err error
		conn, err = nats.Connect(t.Context(), "nats://"+e.address)
		return err == nil
	})
	defer shut(t, conn)
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
			serving.Go(func() { pretend(l, version) })
			_, err = nats.Connect(t.Context(), "nats://"+l.Addr().String())
			require.ErrorContains(t, err, want)
			require.ErrorContains(t, err, l.Addr().String())
		})
	}
}

// pretend serves one connection: it greets with a version, answers pings, and that there is no JetStream.
func pretend(l net.Listener, version string) {
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
		case words[0] == "PUB" && len(words) == 4:
			fmt.Fprintf(c, "HMSG %s 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n", words[2])
		}
	}
}
