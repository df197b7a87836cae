package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/golda-dev/golda/coordination/scheduler"
	"github.com/golda-dev/golda/examples/internal/show"
	"github.com/golda-dev/golda/examples/internal/usage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// program is a running program. Its output is read at once, because otherwise its status line would block it.
type program struct {
	addr   string
	stop   chan struct{}
	status chan int
	lines  chan string
}

// start runs the program until it reports its address.
func start(t *testing.T, args ...string) *program {
	t.Helper()
	r, w := io.Pipe()
	p := &program{stop: make(chan struct{}, 1), status: make(chan int, 1), lines: make(chan string, 1)}
	go func() {
		defer w.Close()
		p.status <- run(scheduler.Chan(p.stop), append([]string{"-addr", "127.0.0.1:0"}, args...), w, w)
	}()
	go p.listen(r)
	addr, ok := strings.CutPrefix(<-p.lines, "listening on ")
	require.True(t, ok)
	p.addr = addr
	return p
}

// listen keeps the last line that has not been read.
func (p *program) listen(r io.Reader) {
	defer close(p.lines)
	for s := bufio.NewScanner(r); s.Scan(); {
		select {
		case <-p.lines:
		default:
		}
		p.lines <- s.Text()
	}
}

// await reads status lines until the wanted one comes.
func (p *program) await(t *testing.T, want string) {
	t.Helper()
	for line := range p.lines {
		if line == want {
			return
		}
	}
	t.Errorf("%q never came", want)
}

func (p *program) end(t *testing.T) {
	t.Helper()
	p.stop <- struct{}{}
	assert.Equal(t, show.StatusOK, <-p.status)
	for range p.lines {
	}
}

func TestItEchoesWhatManyClientsSend(t *testing.T) {
	p := start(t, "-every", "1ms")
	const clients, words = 20, 10
	all := make(chan net.Conn, clients)
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			conn, err := net.Dial("tcp", p.addr)
			if err != nil {
				t.Error(err)
				return
			}
			all <- conn
			answers := bufio.NewReader(conn)
			for j := range words {
				word := fmt.Sprintf("%02d %02d\n", i, j)
				_, err := io.WriteString(conn, word)
				require.NoError(t, err)
				answer, err := answers.ReadString('\n')
				require.NoError(t, err)
				assert.Equal(t, word, answer)
			}
		})
	}
	wg.Wait()
	p.await(t, fmt.Sprintf("%d connections, %d bytes", clients, clients*words*6))
	close(all)
	for conn := range all {
		require.NoError(t, conn.Close())
	}
	p.await(t, fmt.Sprintf("0 connections, %d bytes", clients*words*6))
	p.end(t)
}

func TestItEndsAlthoughAClientIsConnected(t *testing.T) {
	p := start(t, "-every", "1ms")
	conn, err := net.Dial("tcp", p.addr)
	require.NoError(t, err)
	defer conn.Close()
	p.await(t, "1 connections, 0 bytes")
	p.end(t)
	_, err = conn.Read(make([]byte, 1))
	assert.Error(t, err)
}

// unstopped runs the program without a source that stops it.
func unstopped(args []string, stdout, stderr io.Writer) int { return run(nil, args, stdout, stderr) }

func TestWrongFlagsAreReportedInOneLineWithStatus2(t *testing.T) {
	usage.Refused(t, unstopped, map[string][2]string{
		"an unknown flag":   {"-no", "eventloop: flag provided but not defined: -no; see -help\n"},
		"a value too small": {"-every 0s", "eventloop: -every 0s: must be positive\n"},
		"all at once": {
			"-every -1s -connections 0 x",
			"eventloop: stray argument \"x\"; everything is set with flags, see -help; " +
				"-every -1s: must be positive; -connections 0: at least 1 connection\n",
		},
		"not a number": {"-connections many", "eventloop: invalid value \"many\" for flag -connections: parse error\n"},
	})
}

func TestHelpIsNoError(t *testing.T) {
	var stdout, stderr bytes.Buffer
	assert.Equal(t, show.StatusOK, run(nil, []string{"-help"}, &stdout, &stderr))
	assert.Contains(t, stdout.String(), "-every")
	assert.Empty(t, stderr.String())
}

func TestAnAddressInUseIsAFailure(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	var stdout, stderr bytes.Buffer
	assert.Equal(t, show.StatusFailed, run(nil, []string{"-addr", l.Addr().String()}, &stdout, &stderr))
	assert.Contains(t, stderr.String(), "address already in use")
	assert.Equal(t, 1, strings.Count(stderr.String(), "\n"))
}
