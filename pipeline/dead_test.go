package pipeline_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/supervisor"
)

// echoServer is a resource that can fail: a server that echoes each line.
type echoServer struct {
	at    net.Listener
	mu    sync.Mutex // guards conns
	conns []net.Conn
	over  sync.WaitGroup
}

func newEchoServer(t *testing.T) *echoServer {
	t.Helper()
	at, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &echoServer{at: at}
	s.over.Go(func() {
		for {
			conn, err := at.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns = append(s.conns, conn)
			s.mu.Unlock()
			s.over.Go(func() { s.serve(conn) })
		}
	})
	t.Cleanup(s.die)
	return s
}

func (s *echoServer) serve(conn net.Conn) {
	defer conn.Close()
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		if _, err := fmt.Fprintln(conn, lines.Text()); err != nil {
			return
		}
	}
}

// die closes the server and its connections. It may be called twice.
func (s *echoServer) die() {
	_ = s.at.Close()
	s.mu.Lock()
	for _, conn := range s.conns {
		_ = conn.Close()
	}
	s.mu.Unlock()
	s.over.Wait()
}

// asker calls the server. It crashes without a connection, since it can do nothing then.
type asker struct {
	server string
	conn   net.Conn
	lines  *bufio.Scanner
}

func (a *asker) Start(ctx context.Context) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", a.server)
	if err != nil {
		return err
	}
	a.conn, a.lines = conn, bufio.NewScanner(conn)
	return nil
}

func (a *asker) Stop() { _ = a.conn.Close() }

func (a *asker) HandleCommand(_ context.Context, cmd int) behaviour.Outcome {
	if _, err := fmt.Fprintln(a.conn, cmd); err != nil {
		panic(err)
	}
	if !a.lines.Scan() {
		panic(errors.New("the server has hung up"))
	}
	return behaviour.OK(a.lines.Text())
}

// A stage whose resource has failed does not spin: it pauses longer and longer and fails, and Run returns all crashes. Time and CPU
// are real:
//
//	go test -v -run DeadResource ./pipeline
//
// With -long the stage endures the default number of crashes, which takes some six seconds.
func TestAStageWithADeadResourceBacksOffAndEscalatesAtLittleCost(t *testing.T) {
	endures := stage.RestartPolicy{Limit: 12}
	if *long {
		endures = stage.RestartPolicy{}
	}
	for name, c := range map[string]struct {
		parts func(ask, other *stage.Stage[int]) []pipeline.Part
		tried []string // what the supervisor did about it
	}{
		"workers of its own": {
			parts: func(ask, other *stage.Stage[int]) []pipeline.Part { return []pipeline.Part{ask, other} },
			tried: []string{"one restart too many"},
		},
		"workers of its own, and one restart": {
			parts: func(ask, other *stage.Stage[int]) []pipeline.Part {
				return []pipeline.Part{ask, other, pipeline.Intensity(1, time.Minute)}
			},
			tried: []string{"restarted at once", "one restart too many"},
		},
		"a shared pool": {
			parts: func(ask, other *stage.Stage[int]) []pipeline.Part {
				return []pipeline.Part{pipeline.Group("shared", 1, 1, ask, other)}
			},
			tried: []string{"one restart too many"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := newEchoServer(t)
			ask := stage.Each("ask", func() behaviour.Behaviour[int] { return &asker{server: server.at.Addr().String()} },
				stage.Workers(1, 1), stage.Capacity(64), stage.Restart(endures))
			other := stage.New("other", fn(echo[int]), stage.Workers(1, 1))
			var letters atomic.Int64
			p, err := pipeline.New("test", append(c.parts(ask, other), quiet, pipeline.System(system()),
				pipeline.Control(policy.Fixed{}), pipeline.DeadLetters(func(stage.DeadLetter) { letters.Add(1) }))...)
			require.NoError(t, err)
			ran := make(chan error, 1)
			go func() { ran <- p.Run(context.Background()) }()
			eventually(t, "it runs", func() bool { return ask.Submit(context.Background(), 0) == nil })
			for i := range 100 {
				text, err := stage.Call[string](soon(t), ask, i)
				require.NoError(t, err)
				require.Equal(t, strconv.Itoa(i), text)
			}

			require.Regexp(t, "(?s)ask: running.*other: running|other: running.*ask: running", p.Tree().String())
			server.die()
			used, since := cpuUsed(), time.Now()
			offered := burst(ask)
			err = <-ran
			cpu, took := cpuUsed()-used, time.Since(since)
			<-offered

			share := float64(cpu) / float64(took)
			t.Logf("Run returned %v after the server died; CPU %v, %.2f %% of one", took, cpu, 100*share)
			require.Less(t, share, 0.05)
			require.Greater(t, took, time.Second, "it was restarted")
			tellsAll(t, err, c.tried)
			require.Contains(t, p.Tree().String(), "down", "the last state stays")
			atRest(t, p)
			s := p.Snapshot()
			require.EqualValues(t, 101, s.Replied)
			require.Equal(t, s.Accepted-101, s.DeadLettered)
			require.EqualValues(t, s.DeadLettered, letters.Load(), "nothing is lost")
			require.Positive(t, p.Quarantine().Len())
			require.GreaterOrEqual(t, p.DeadLetters().Len(), 64, "the queued commands")
		})
	}
}

// burst submits commands until the stage refuses them.
func burst(s *stage.Stage[int]) (done chan struct{}) {
	done = make(chan struct{})
	go func() {
		defer close(done)
		for s.Submit(context.Background(), 1) == nil { //nolint:revive // that is all
		}
	}()
	return done
}

// tellsAll requires that the error of Run names the stage, the first and the last crash and their place, and the restarts.
func tellsAll(t *testing.T, err error, tried []string) {
	t.Helper()
	escalation, ok := errors.AsType[*supervisor.EscalationError](err)
	require.True(t, ok, "%v", err)
	require.Len(t, escalation.Failures, len(tried))
	for i, f := range escalation.Failures {
		require.Equal(t, tried[i], f.Tried)
	}
	broken, ok := errors.AsType[*stage.BrokenError](escalation.Failures[0].Reason)
	require.True(t, ok, "%v", err)
	require.Equal(t, "ask", broken.Stage)
	story := escalation.Story()
	t.Logf("%v\n%s", err, story)
	require.Contains(t, story, `stage "ask" gave up after`)
	require.Contains(t, story, "the server has hung up", "the first crash")
	require.Contains(t, story, "pipeline_test.(*asker).HandleCommand", "where")
	require.Contains(t, story, "connection refused", "the last crash")
	require.Contains(t, story, "of pauses in all")
	require.Positive(t, broken.Pauses)
	require.Greater(t, broken.Paused, time.Second)
	for _, what := range tried {
		require.Contains(t, story, what)
	}
}
