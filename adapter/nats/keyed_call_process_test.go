package nats_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/internal/nodetest"
	"github.com/golda-dev/golda/stage"
)

// asTeller, in the environment, makes this program a process of pipeline "bank": its name, "front" or "back", and the URL of the server. Its
// handlers report to the program that has started it. A front calls a step of account "a", and waits.
const asTeller = "GOLDA_TEST_NATS_TELLER"

// entry is what a handler reports: that it begins with a step, or ends. The answer is text if it is to wait for long.
type entry struct {
	By    string
	Step  step
	Leave bool
}

const entries = "test.bank.entries"

// report sends an entry, and returns the answer.
func (e entry) report(conn *nats.Conn) (string, error) {
	data, err := json.Marshal(e)
	if err != nil {
		return "", err
	}
	m, err := conn.JetStream().Conn().Request(entries, data, time.Minute)
	if err != nil {
		return "", err
	}
	return string(m.Data), nil
}

// runTeller runs the process until its standard input is closed.
func runTeller(spec string) error {
	var name, process, url string
	if _, err := fmt.Sscan(spec, &name, &process, &url); err != nil {
		return err
	}
	ctx := context.Background()
	conn, err := nats.Connect(ctx, url)
	if err != nil {
		return err
	}
	b, err := openTeller(conn, process, bankOptions, func(c coroutine.Context, s step) behaviour.Outcome {
		_, err := coroutine.Await(c, func(ctx context.Context) (none, error) {
			answer, err := entry{name, s, false}.report(conn)
			if err == nil && answer != "" {
				<-ctx.Done()
				err = ctx.Err()
			}
			_, left := entry{name, s, true}.report(conn)
			return none{}, errors.Join(err, left)
		})
		if err != nil {
			return behaviour.Error(err)
		}
		return behaviour.OK(s.N)
	})
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stdout, name)
	if process == "front" {
		_, _ = stage.Call[int](ctx, b.enter, step{"a", 1})
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	return errors.Join(b.Stop(ctx), conn.Close(ctx))
}

func startTellerProcess(t *testing.T, name, process, url string) *exec.Cmd {
	t.Helper()
	cmd, got := nodetest.Start(t, asTeller+"="+strings.Join([]string{name, process, url}, " "))
	require.Equal(t, name, got)
	return cmd
}

// listenTo calls a function for each entry. It returns what the handler is answered.
func listenTo(t *testing.T, conn *nats.Conn, heard func(e entry) string) {
	t.Helper()
	_, err := conn.JetStream().Conn().Subscribe(entries, func(m *natsgo.Msg) {
		var e entry
		assert.NoError(t, json.Unmarshal(m.Data, &e))
		assert.NoError(t, m.Respond([]byte(heard(e))))
	})
	require.NoError(t, err)
}

// Processes are killed while commands are sent and calls are made. Each call has its answer, and the order of each key is kept.
func TestCallsKeepTheOrderOfTheirKeyWhileProcessesAreKilled(t *testing.T) {
	t.Parallel()
	url := serve(t, &server.Options{}).ClientURL()
	conn := connect(t, url)
	b := newBook()
	inside := map[string]string{} // the process that has a step of an account
	var mu sync.Mutex
	dead := map[string]bool{}
	listenTo(t, conn, func(e entry) string {
		mu.Lock()
		defer mu.Unlock()
		if dead[e.By] {
			return ""
		}
		if e.Leave {
			delete(inside, e.Step.Account)
			b.leave(e.Step)
			return ""
		}
		if by := inside[e.Step.Account]; dead[by] {
			b.leave(e.Step)
		}
		inside[e.Step.Account] = e.By
		b.enter(e.By, e.Step)
		return ""
	})
	front := startTeller(t, conn, "front", nil)
	programs := []*exec.Cmd{startTellerProcess(t, "0", "back", url), startTellerProcess(t, "1", "back", url)}
	_, err := front.call(t, step{"account 0", 1})
	require.NoError(t, err)
	const accounts, each = 8, 60
	var callers sync.WaitGroup
	for a := range accounts {
		callers.Go(func() {
			for n := 1; n <= each; n++ {
				s := step{fmt.Sprint("account ", a), n}
				switch {
				case a == 0 && n == 1: // above
				case (n+a)%3 == 0:
					assert.NoError(t, front.enter.Submit(t.Context(), s))
				default:
					got, err := stage.Call[int](t.Context(), front.enter, s)
					assert.NoError(t, err)
					assert.Equal(t, n, got)
				}
			}
		})
	}
	for i := range 3 {
		at := (i + 1) * accounts * each / 6
		require.Eventually(t, func() bool { return b.handled() >= at }, 2*time.Minute, time.Millisecond)
		require.NoError(t, programs[i].Process.Kill())
		_ = programs[i].Wait()
		mu.Lock()
		dead[fmt.Sprint(i)] = true
		mu.Unlock()
		programs = append(programs, startTellerProcess(t, fmt.Sprint(i+2), "back", url))
	}
	callers.Wait()
	require.Eventually(t, func() bool { return b.handled() == accounts*each }, 2*time.Minute, time.Millisecond)
	front.empty(t)
	b.mu.Lock()
	defer b.mu.Unlock()
	assert.Empty(t, b.faults)
}

// The process that handles a call is killed. Another one handles the call, and the caller has that answer.
func TestACallOutlivesTheProcessThatHandlesIt(t *testing.T) {
	t.Parallel()
	url := serve(t, &server.Options{}).ClientURL()
	conn := connect(t, url)
	began := make(chan string, 10)
	listenTo(t, conn, func(e entry) string {
		if !e.Leave && e.Step.N == 1 {
			began <- e.By
			if e.By == "first" {
				return "wait"
			}
		}
		return ""
	})
	first := startTellerProcess(t, "first", "back", url)
	front := startTeller(t, conn, "front", nil)
	_, err := front.call(t, step{"a", 0})
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() {
		_, err := stage.Call[int](context.Background(), front.enter, step{"a", 1})
		ended <- err
	}()
	require.Equal(t, "first", <-began)
	require.NoError(t, first.Process.Kill())
	killed := time.Now()
	startTellerProcess(t, "second", "back", url)
	require.Equal(t, "second", <-began)
	require.NoError(t, <-ended)
	t.Logf("it was answered %v after the kill; AckWait is %v", time.Since(killed), bankOptions.AckWait)
	front.empty(t)
}

// The process of the caller is killed: its call that is handled ends, and the one that waits is not handled.
func TestTheCallsOfACallerThatIsKilledEnd(t *testing.T) {
	t.Parallel()
	url := serve(t, &server.Options{}).ClientURL()
	conn := connect(t, url)
	inside, left := make(chan none, 10), make(chan error, 10)
	var handled atomic.Int32
	back := startTeller(t, conn, "back", func(c coroutine.Context, s step) behaviour.Outcome {
		handled.Add(1)
		inside <- none{}
		err := coroutine.Sleep(c, time.Hour)
		left <- err
		return behaviour.Error(err)
	})
	var fronts []*exec.Cmd
	for i := range 2 {
		fronts = append(fronts, startTellerProcess(t, fmt.Sprint("front", i), "front", url))
		if i == 0 {
			<-inside
		}
	}
	eventually(t, "both calls are in the stream", func() bool {
		s, err := conn.Status(t.Context(), "bank_enter")
		return assert.NoError(t, err) && s.Pending == 2
	})
	require.NoError(t, fronts[1].Process.Kill())
	require.NoError(t, fronts[0].Process.Kill())
	require.Error(t, <-left)
	back.empty(t)
	require.EqualValues(t, 1, handled.Load())
	require.EqualValues(t, 1, back.counts().Expired)
}
