package worker_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/internal/crash"
	"github.com/golda-dev/golda/internal/stacks"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// sites are places where a handler crashes. Each is on a line of its own, which distinguishes their fingerprints.
var sites = map[string]func(depth int){
	"here":      func(int) { panic("here") },
	"there":     func(int) { panic("there") },
	"nil":       func(int) { var p *int; *p = 1 },
	"exit":      func(int) { runtime.Goexit() },
	"int":       func(n int) { generic(n) },
	"text":      func(int) { generic("text") },
	"recursion": recurse,
	"to and fro": func(n int) {
		fro(n)
	},
	"again": func(int) {
		defer func() { panic(recover()) }()
		panic("first")
	},
	"value": func(n int) { panic(fmt.Sprint("value ", n)) },
}

func generic[T any](x T) { panic(x) }

//go:noinline
func recurse(n int) {
	if n == 0 {
		panic("bottom")
	}
	recurse(n - 1)
}

//go:noinline
func to(n int) {
	if n <= 0 {
		panic("bottom")
	}
	fro(n - 1)
}

//go:noinline
func fro(n int) { to(n - 1) }

// crashing crashes at a site, at a depth of recursion.
func crashing(site string, depth int) { sites[site](depth) }

// batching is a batch handler that crashes.
type batching struct{ site string }

func (b batching) HandleCommand(context.Context, int) behaviour.Outcome { return behaviour.OK(nil) }

func (b batching) HandleBatch(_ context.Context, cmds []int) []behaviour.Outcome {
	if b.site != "none" {
		crashing(b.site, cmds[0])
	}
	return nil
}

// single is a handler with a method of its own.
type single struct{ site string }

func (s single) HandleCommand(_ context.Context, n int) behaviour.Outcome {
	crashing(s.site, n)
	return behaviour.OK(nil)
}

// printOf has a stage's handler crash and returns the fingerprint of the crash.
func printOf(t *testing.T, depth int, s *stage.Stage[int], parts ...pipeline.Part) string {
	t.Helper()
	parts = append(parts, s, pipeline.Control(policy.Fixed{}), pipeline.System(system),
		pipeline.Logger(slog.New(slog.DiscardHandler)))
	p, err := pipeline.New("p", parts...)
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	_, err = stage.Call[any](t.Context(), s, depth)
	e, ok := errors.AsType[*stage.CrashError](err)
	require.True(t, ok, "%v", err)
	stop(t, p)
	return stacks.Fingerprint(e.Stack)
}

// kinds are the kinds of stages whose workers run a handler.
var kinds = map[string]func(site string, opts ...stage.Option) *stage.Stage[int]{
	"shared": func(site string, opts ...stage.Option) *stage.Stage[int] {
		return stage.New("s", single{site}, opts...)
	},
	"one for each worker": func(site string, opts ...stage.Option) *stage.Stage[int] {
		return stage.Each("s", func() behaviour.Behaviour[int] { return single{site} }, opts...)
	},
}

var options = map[string][]stage.Option{
	"one worker":   {stage.Workers(1, 1)},
	"many workers": {stage.Workers(8, 8)},
	"a time limit": {stage.Timeout(time.Hour)},
	"retries":      {stage.Retry(stage.RetryPolicy{Attempts: 3})},
}

func TestACrashHasTheSameFingerprintInEveryKindOfStage(t *testing.T) {
	for site := range sites {
		t.Run(site, func(t *testing.T) {
			want := printOf(t, 2, kinds["shared"](site))
			require.Regexp(t, "^[0-9a-f]{12}$", want)
			for kind, make := range kinds {
				for name, opts := range options {
					for _, depth := range []int{2, 4, 400} {
						require.Equal(t, want, printOf(t, depth, make(site, opts...)), "%s, %s, depth %d", kind, name, depth)
					}
				}
				s := make(site)
				require.Equal(t, want, printOf(t, 2, s, pipeline.Group("g", 2, 2, s)), "%s, by a shared worker", kind)
			}
		})
	}
}

func TestDifferentSitesHaveDifferentFingerprints(t *testing.T) {
	seen := map[string]string{}
	note := func(name, mark string) {
		require.NotContains(t, seen, mark, name)
		seen[mark] = name
	}
	for site := range sites {
		note(site, printOf(t, 2, kinds["shared"](site)))
	}
	note("a function", printOf(t, 2, stage.Func("s", func(context.Context, int) behaviour.Outcome { panic("func") })))
	note("another function", printOf(t, 2, stage.Func("s", func(context.Context, int) behaviour.Outcome { panic("func") })))
	note("a batch", printOf(t, 2, stage.New("s", batching{"here"})))
	note("too few outcomes, which is the engine's panic", printOf(t, 2, stage.New("s", batching{"none"})))
}

func TestACrashInTheEngineThatUserCodeCalledHasTheUserCodesFingerprint(t *testing.T) {
	target := stage.Func("target", func(context.Context, int) behaviour.Outcome { return behaviour.OK(nil) })
	var none context.Context
	crashing := func(submit func()) *stage.Stage[int] {
		return stage.Func("s", func(context.Context, int) behaviour.Outcome { submit(); return behaviour.OK(nil) })
	}
	a := printOf(t, 2, crashing(func() { _ = target.Submit(none, 1) }))
	b := printOf(t, 2, crashing(func() { _ = target.Submit(none, 1) }))
	require.NotEqual(t, a, b)
}

// printing is set in the environment of a process of this program that prints the fingerprint of a crash.
const printing = "GOLDA_PRINT_A_CRASH"

func TestACrashHasTheSameFingerprintInAnotherRunOfTheProgram(t *testing.T) {
	own := printOf(t, 3, kinds["shared"]("value"))
	if os.Getenv(printing) != "" {
		t.Log("print:" + own + ".")
		return
	}
	for range 2 {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), printing+"=1")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		require.Contains(t, string(out), "print:"+own+".")
	}
}

func TestAStackOutsideAWorkerHasAFingerprintToo(t *testing.T) {
	require.NotEmpty(t, stacks.Fingerprint(debug.Stack()))
}

func BenchmarkFingerprint(b *testing.B) {
	err := crash.Guard("s", func() error { recurse(10); return nil })
	e, _ := errors.AsType[*stage.CrashError](err)
	b.ReportAllocs()
	for b.Loop() {
		stacks.Fingerprint(e.Stack)
	}
}
