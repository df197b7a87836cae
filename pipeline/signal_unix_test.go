//go:build unix

package pipeline_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

const signalledEnv = "GOLDA_TEST_SIGNALLED"

// signalled are the programs of [TestSignalsEndAProgramCleanly], which runs each in a process of its own. They return their exit status,
// and print "ready" when signals may come, and then what the test checks.
var signalled = map[string]func() int{
	"drains": func() int {
		s := stage.Func("s", func(context.Context, int) behaviour.Outcome {
			time.Sleep(100 * time.Millisecond)
			return behaviour.OK(nil)
		}, stage.Workers(1, 1))
		return program(context.Background(), s)
	},
	"obeys its context": func() int {
		return program(context.Background(), stage.Func("s", func(ctx context.Context, _ int) behaviour.Outcome {
			<-ctx.Done()
			return behaviour.Error(context.Cause(ctx))
		}, stage.Workers(1, 1)))
	},
	"is deaf": func() int {
		return program(context.Background(), stage.Func("s", func(context.Context, int) behaviour.Outcome { select {} }, stage.Workers(1, 1)), pipeline.Grace(time.Hour))
	},
	"has little time": func() int {
		return program(context.Background(), stage.Func("s", func(ctx context.Context, _ int) behaviour.Outcome {
			<-ctx.Done()
			return behaviour.Error(context.Cause(ctx))
		}, stage.Workers(1, 1)), pipeline.DrainTimeout(50*time.Millisecond))
	},
	"starts for ever": func() int {
		return program(context.Background(), stage.New("s", sleepy{}))
	},
	"is done": func() int {
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		_ = program(ctx, stage.Func("s", func(context.Context, int) behaviour.Outcome { return behaviour.OK(nil) }))
		say("done")
		time.Sleep(time.Minute) // until a signal ends this
		return 0
	},
}

type sleepy struct{}

func (sleepy) HandleCommand(context.Context, int) behaviour.Outcome { return behaviour.OK(nil) }
func (sleepy) Start(ctx context.Context) error {
	say("ready")
	<-ctx.Done()
	return context.Cause(ctx)
}

func say(what string) { fmt.Fprintln(os.Stdout, "says:", what) }

// program runs a pipeline of one stage that gets three commands.
func program(ctx context.Context, s *stage.Stage[int], parts ...pipeline.Part) int {
	p, err := pipeline.New("program", append(parts, s)...)
	if err != nil {
		panic(err)
	}
	go func() { //nolint:contextcheck // a source of its own
		for n := 0; n < 3; {
			if s.Submit(context.Background(), 1) == nil {
				n++
			}
		}
		for p.Snapshot().Stages[0].Queue.InHand == 0 && p.Snapshot().InFlight > 0 {
			time.Sleep(time.Millisecond)
		}
		say("ready")
	}()
	err = p.RunUntilSignal(ctx)
	sum := p.Snapshot()
	say(fmt.Sprintf("balanced %v, in flight %d, left undone %d", sum.Balanced(), sum.InFlight, sum.DeadLettered+sum.Failed))
	if stop, ok := errors.AsType[*pipeline.StopError](err); ok {
		say(stop.Report())
		return 1
	}
	if err != nil && p.Ending().Signal != nil {
		say(err.Error())
		return 2
	}
	if err != nil {
		say(err.Error())
		return 3
	}
	return 0
}

func TestSignalsEndAProgramCleanly(t *testing.T) {
	if name := os.Getenv(signalledEnv); name != "" {
		os.Exit(signalled[name]())
	}
	for name, row := range map[string]struct {
		program string
		after   string // what it prints before the signals come
		signals []syscall.Signal
		status  int
		killed  syscall.Signal
		says    []string
	}{
		"SIGTERM drains":            {"drains", "ready", []syscall.Signal{syscall.SIGTERM}, 0, 0, []string{"balanced true, in flight 0, left undone 0"}},
		"SIGINT drains":             {"drains", "ready", []syscall.Signal{syscall.SIGINT}, 0, 0, []string{"balanced true, in flight 0, left undone 0"}},
		"a second one stops hard":   {"obeys its context", "ready", []syscall.Signal{syscall.SIGTERM, syscall.SIGINT}, 1, 0, []string{"in flight 0", "not drained: signal: interrupt", "signal_unix_test.go:"}},
		"the time to drain is over": {"has little time", "ready", []syscall.Signal{syscall.SIGTERM}, 1, 0, []string{"in flight 0", "deadline exceeded"}},
		"a third one kills":         {"is deaf", "ready", []syscall.Signal{syscall.SIGTERM, syscall.SIGTERM, syscall.SIGTERM}, 0, syscall.SIGTERM, nil},
		"a signal during a start":   {"starts for ever", "ready", []syscall.Signal{syscall.SIGTERM}, 2, 0, []string{"signal: terminated"}},
		"a signal afterwards":       {"is done", "done", []syscall.Signal{syscall.SIGTERM}, 0, syscall.SIGTERM, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), enough)
			defer cancel()
			child := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestSignalsEndAProgramCleanly$")
			child.Env = append(os.Environ(), signalledEnv+"="+row.program)
			var all, log bytes.Buffer
			child.Stderr = &log
			out, err := child.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, child.Start())
			lines := bufio.NewScanner(out)
			for lines.Scan() {
				all.WriteString(lines.Text() + "\n")
				if lines.Text() == "says: "+row.after {
					go func() {
						for _, s := range row.signals {
							_ = child.Process.Signal(s)
							time.Sleep(200 * time.Millisecond) // two equal signals at the same time count as one
						}
						for row.killed != 0 && child.Process.Signal(row.killed) == nil { // the process may have ended already
							time.Sleep(200 * time.Millisecond)
						}
					}()
				}
			}
			require.NoError(t, lines.Err())
			_ = child.Wait()
			all.Write(log.Bytes())
			status := child.ProcessState.Sys().(syscall.WaitStatus)
			if row.killed != 0 {
				require.True(t, status.Signaled(), all.String())
				require.Equal(t, row.killed, status.Signal())
				return
			}
			require.Equal(t, row.status, status.ExitStatus(), all.String())
			for _, what := range row.says {
				require.Contains(t, all.String(), what)
			}
		})
	}
}
