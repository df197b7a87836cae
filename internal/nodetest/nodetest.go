// Package nodetest has what tests of nodes in several programs share: the start
// of a second program, and visits of a monitor.
package nodetest

import (
	"bufio"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/monitor"
	"github.com/golda-dev/golda/coordination/rpc"
)

// Start starts the program of the test once more, with additions to its
// environment, and returns the name of its node: the first line that it writes.
// The program ends when its standard input is closed, at the end of the test.
func Start(tb testing.TB, env ...string) (cmd *exec.Cmd, node string) {
	tb.Helper()
	cmd = exec.Command(os.Args[0])
	cmd.Env = slices.Concat(os.Environ(), env)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		tb.Fatalf("the program has not written the name of its node: %v", err)
	}
	return cmd, strings.TrimSpace(line)
}

// Secret returns what the nodes of a test share that connect by sockets, also
// with those of its other programs.
func Secret() []byte { return []byte("the nodes of a test share this") }

// Visit is what a process is asked to do inside a monitor.
type Visit struct {
	Lock   monitor.Lock
	For    time.Duration
	Inside rpc.Ref[uint64, struct{}] // is called from inside with the token, if it leads anywhere
}

// Stay is when a visit was inside, and with which token.
type Stay struct {
	Token    uint64
	From, To time.Time
}

// Stayed is a function of the monitor of the lock that it is sent.
func Stayed(c coroutine.Context, in Visit) (Stay, error) {
	return monitor.DoWhenFree(in.Lock, func(c coroutine.Context, m *monitor.Monitor, in Visit) (Stay, error) {
		s := Stay{Token: m.Token(), From: time.Now()}
		if in.Inside.Method != "" {
			if _, err := in.Inside.Call(c, m.Token()); err != nil {
				return s, err
			}
		}
		err := coroutine.Sleep(c, in.For)
		s.To = time.Now()
		return s, err
	})(c, in)
}
