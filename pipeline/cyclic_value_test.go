package pipeline_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/letters"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/supervisor"
)

// circle is a value that fmt cannot write: fmt follows it until the stack overflows, which no recover stops.
func circle() any {
	m := map[string]any{}
	m["me"] = m
	return m
}

// apart runs a test in a process of its own, because a fault there would end all other tests.
func apart(t *testing.T) (child bool) {
	t.Helper()
	const mark = "GOLDA_APART"
	if os.Getenv(mark) != "" {
		return true
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+strings.ReplaceAll(t.Name(), "/", "$/^")+"$")
	cmd.Env = append(os.Environ(), mark+"=1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%.3000s", out)
	return false
}

// loud returns a log that formats everything, unlike the discarding handler.
func loud() pipeline.Part {
	return pipeline.Logger(slog.New(slog.NewTextHandler(new(bytes.Buffer), &slog.HandlerOptions{Level: slog.LevelDebug})))
}

// lame is a behaviour whose resource fails: it can neither handle commands nor restart.
type lame struct {
	dead  *bool
	crash func()
}

func (l lame) Start(context.Context) error {
	if *l.dead {
		l.crash()
	}
	return nil
}

func (l lame) HandleCommand(context.Context, int) behaviour.Outcome {
	*l.dead = true
	l.crash()
	return behaviour.OK(nil)
}

// nested is an error whose Error method panics with an error whose Error method panics; fmt does not recover that panic.
type nested struct{}

func (nested) Error() string { panic(nested{}) }

func TestAStageThatFailsWithAnUnprintableValueReportsItsCrashes(t *testing.T) {
	for name, c := range map[string]struct {
		crash func()
		says  string
	}{
		"a value that holds itself": {func() { panic(circle()) }, "map[me:map[me:"},
		"a very long text":          {func() { panic(strings.Repeat("long ", 1<<20)) }, "long long"},
		"an error that panics":      {func() { panic(nested{}) }, "pipeline_test.nested {}"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			if !apart(t) {
				return
			}
			var dead bool
			s := stage.Each("s", func() behaviour.Behaviour[int] { return lame{&dead, c.crash} },
				stage.Workers(1, 1), stage.Restart(stage.RestartPolicy{Limit: 1}))
			p := start(t, s, loud())
			require.NoError(t, s.Submit(t.Context(), 1))
			<-p.Done()
			escalation, ok := errors.AsType[*supervisor.EscalationError](p.Err())
			require.True(t, ok)
			require.Contains(t, p.Err().Error(), c.says)
			require.Contains(t, escalation.Story(), c.says)
			require.Less(t, len(escalation.Story()), 1<<18)
			require.NoError(t, p.Quarantine().Export(io.Discard))
			atRest(t, p)
		})
	}
}

func TestACyclicPanicValueIsPrintedWithoutRecursion(t *testing.T) {
	if !apart(t) {
		return
	}
	s := stage.Func("s", func(context.Context, int) behaviour.Outcome { panic(circle()) },
		stage.Retry(stage.RetryPolicy{Attempts: 2, If: func(error) bool { panic(circle()) }}))
	asked := make(chan struct{}, 1)
	p := run(t, s, loud(),
		pipeline.DeadLetters(func(stage.DeadLetter) { panic(circle()) }),
		pipeline.Control(rules{time.Millisecond, func(*controller.Snapshot, *controller.Decisions) {
			select {
			case asked <- struct{}{}:
			default:
			}
			panic(circle())
		}}))
	_, err := stage.Call[int](soon(t), s, 1)
	require.ErrorContains(t, err, "map[me:")
	require.Contains(t, fmt.Sprint(p.Quarantine().List(letters.Filter{})[0].Err), "map[me:")
	<-asked
	<-asked
}

type exits struct{}

func (exits) Error() string { runtime.Goexit(); return "" }

func TestAPanicValueThatEndsItsReadersGoroutineIsHarmless(t *testing.T) {
	s := stage.New("s", fn(func(_ context.Context, cmd int) behaviour.Outcome {
		if cmd < 0 {
			panic(exits{})
		}
		return behaviour.OK(cmd)
	}), stage.Workers(1, 1))
	p := run(t, s, loud())
	for range 3 {
		require.NoError(t, s.Submit(t.Context(), -1))
	}
	n, err := stage.Call[int](soon(t), s, 7)
	require.NoError(t, err)
	require.Equal(t, 7, n)
	require.EqualValues(t, 3, p.Snapshot().DeadLettered)
}
