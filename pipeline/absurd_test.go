package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/letters"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/overflow"
	"github.com/golda-dev/golda/stage/queue"
	"github.com/golda-dev/golda/supervisor"
)

// New either returns an error that names every faulty part and option, or a pipeline that runs and drains, whatever the parts.
func TestNewRefusesPartsWithReasonsOrThePipelineRuns(t *testing.T) {
	refused, ran := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		if try(t) {
			ran++
		} else {
			refused++
		}
	})
	t.Logf("%d were refused, %d ran", refused, ran)
	if refused+ran >= 100 { // of the few in short mode all may be refused
		require.Positive(t, refused)
		require.Positive(t, ran)
	}
}

func FuzzNew(f *testing.F) {
	f.Fuzz(rapid.MakeFuzz(func(t *rapid.T) { try(t) }))
}

// try makes a pipeline of the parts that are drawn, and reports whether it ran.
func try(t *rapid.T) (ran bool) {
	a := absurd{t: t, mad100: rapid.SampledFrom([]int{0, 0, 0, 0, 1, 3, 10, 50}).Draw(t, "madness")}
	parts := a.parts()
	p, err := pipeline.New(a.name("pipeline", "p"), parts...)
	if err != nil {
		reasons(t, err)
		return false
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), enough)
	defer cancel()
	if err := p.Start(ctx); err != nil {
		t.Fatalf("what New took did not start: %v", err)
	}
	for _, s := range a.stages {
		for n := range 3 {
			short, stop := context.WithTimeout(ctx, 20*time.Millisecond)
			_ = s.Submit(short, n)
			stop()
		}
	}
	if err := p.Stop(ctx); err != nil {
		t.Fatalf("did not drain in %v: %v", time.Since(began), err)
	}
	if s := p.Snapshot(); !s.Balanced() || s.InFlight != 0 {
		t.Fatalf("%s", s.Law())
	}
	return true
}

// reasons requires that each fault names the part or option and the problem.
func reasons(t *rapid.T, err error) {
	all, ok := err.(interface{ Unwrap() []error })
	if !ok {
		t.Fatalf("not a list of faults: %T %v", err, err)
	}
	for _, err := range all.Unwrap() {
		var of *pipeline.PartError
		var in *stage.OptionError
		switch {
		case errors.As(err, &of):
			ok = of.Part != "" && of.Problem != ""
		case errors.As(err, &in):
			ok = in.Option != "" && in.Problem != ""
		default:
			ok = false
		}
		if !ok || strings.Contains(err.Error(), "%!") {
			t.Fatalf("a fault that does not say what is wrong with what: %T %v", err, err)
		}
	}
}

// absurd draws parts and options: absurd ones in a percentage of the draws, and reasonable ones otherwise.
type absurd struct {
	t      *rapid.T
	mad100 int
	stages []*stage.Stage[int]
	ports  []*behaviour.Port[int]
}

// mad reports whether the next value is to be absurd.
func (a *absurd) mad() bool { return rapid.IntRange(0, 99).Draw(a.t, "mad") >= 100-a.mad100 }

// maybe returns true half of the time.
func (a *absurd) maybe() bool { return rapid.Bool().Draw(a.t, "maybe") }

// number returns one of the good numbers, or any.
func (a *absurd) number(label string, good ...int) int {
	if a.mad() {
		return rapid.SampledFrom([]int{math.MinInt, -1, 0, math.MaxInt, 1 << 31, -1 << 31, 1<<16 + 1}).Draw(a.t, label)
	}
	return rapid.SampledFrom(good).Draw(a.t, label)
}

func (a *absurd) fraction(label string) float64 {
	if a.mad() {
		return rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 1e300, -1e-300, 2}).Draw(a.t, label)
	}
	return rapid.SampledFrom([]float64{0, 0.5, 1}).Draw(a.t, label)
}

// span returns a duration. The good ones are short, so that a run is short.
func (a *absurd) span(label string) time.Duration {
	if a.mad() {
		return rapid.SampledFrom([]time.Duration{math.MinInt64, -1, math.MaxInt64, math.MaxInt64 / 2, 100 * 365 * 24 * time.Hour}).Draw(a.t, label)
	}
	return rapid.SampledFrom([]time.Duration{0, 1, time.Microsecond, time.Millisecond}).Draw(a.t, label)
}

func (a *absurd) name(label, good string) string {
	if a.mad() {
		return rapid.SampledFrom([]string{"", "(pools)", "(controllers)", "a/b", "$", "\x00", strings.Repeat("x", 1<<12), "s0", "g0"}).Draw(a.t, label)
	}
	return good
}

// parts returns the parts for New.
func (a *absurd) parts() (parts []pipeline.Part) {
	parts = append(parts, pipeline.System(system()), quiet)
	for i := range min(a.number("stages", 1, 2, 3, 4), 4) {
		a.stages = append(a.stages, a.stage(i))
	}
	for i, s := range a.stages {
		switch {
		case a.mad():
			parts = append(parts, s, s)
		case i%2 == 1 && a.maybe():
			parts = append(parts, pipeline.Group(a.name("group", fmt.Sprintf("g%d", i)), a.number("fewest", 1, 2), a.number("most", 2, 3), s))
		default:
			parts = append(parts, s)
		}
	}
	for _, port := range a.ports {
		if to := a.anyStage(); !a.mad() {
			parts = append(parts, pipeline.Wire(port, to))
		}
	}
	return append(parts, a.options()...)
}

// anyStage returns one of the stages, or nil.
func (a *absurd) anyStage() *stage.Stage[int] {
	if len(a.stages) == 0 || a.mad() {
		return nil
	}
	return rapid.SampledFrom(a.stages).Draw(a.t, "to")
}

// options returns options of the pipeline.
func (a *absurd) options() (parts []pipeline.Part) {
	for _, option := range []func() pipeline.Part{
		func() pipeline.Part {
			switch {
			case a.mad():
				return pipeline.Subgraph(pipeline.Control(a.policy()), pipeline.Control(a.policy()))
			case a.mad(): //nolint:gocritic // another throw of the dice
				return pipeline.Control(a.policy(), a.policy())
			case a.maybe():
				return pipeline.Control(a.policy(), policy.Batching{})
			default:
				return pipeline.Control(a.policy())
			}
		},
		func() pipeline.Part {
			if a.mad() {
				return pipeline.Subgraph(pipeline.DeadLetters(nil), pipeline.Failures(nil), pipeline.System(nil), pipeline.Logger(nil))
			}
			return pipeline.DeadLetters(func(stage.DeadLetter) {})
		},
		func() pipeline.Part {
			return pipeline.KeepLetters(letters.Options{Most: a.number("letters", -1, 1, 100)})
		},
		func() pipeline.Part { return pipeline.Supervise(supervisor.Strategy(a.number("strategy", 0, 1, 2))) },
		func() pipeline.Part { return pipeline.Intensity(a.number("restarts", 0, 1), a.span("within")) },
		func() pipeline.Part {
			return pipeline.Backoff(supervisor.Backoff{First: a.span("first"), Max: a.span("longest"), Jitter: float64(a.number("jitter", 0, 1))})
		},
		func() pipeline.Part { return pipeline.DrainTimeout(a.span("drain")) },
		func() pipeline.Part { return pipeline.Grace(a.span("grace")) },
		func() pipeline.Part { return pipeline.Assign(a.name("process", "here"), a.name("mapped", "s0")) },
		func() pipeline.Part { return pipeline.Subgraph() },
		func() pipeline.Part {
			if a.mad() {
				return pipeline.Entry()
			}
			if len(a.stages) == 0 {
				return pipeline.Subgraph()
			}
			var parts []pipeline.Part
			for _, s := range a.stages {
				parts = append(parts, s)
			}
			return pipeline.Entry(parts...)
		},
	} {
		if rapid.IntRange(0, 3).Draw(a.t, "given") == 3 {
			parts = append(parts, option())
		}
	}
	if a.mad() {
		parts = append(parts, nil)
	}
	return parts
}

// policy returns a named policy with other numbers in its fields.
func (a *absurd) policy() controller.Policy {
	if a.mad() {
		return nil
	}
	law, err := policy.ByName(rapid.SampledFrom(policy.Names()).Draw(a.t, "policy"))
	if err != nil {
		a.t.Fatal(err)
	}
	v := reflect.New(reflect.TypeOf(law)).Elem()
	v.Set(reflect.ValueOf(law))
	if v.Kind() != reflect.Struct {
		return law
	}
	for i := range v.NumField() {
		f, name := v.Field(i), v.Type().Field(i).Name
		if !f.CanSet() || !a.maybe() {
			continue
		}
		switch {
		case f.Type() == reflect.TypeFor[time.Duration]():
			f.SetInt(int64(a.span(name)))
		case f.CanInt():
			f.SetInt(int64(a.number(name, 1, 2, 5)))
		case f.CanFloat():
			f.SetFloat(a.fraction(name))
		case f.Kind() == reflect.Bool:
			f.SetBool(a.maybe())
		}
	}
	return v.Interface().(controller.Policy)
}

// stage returns a stage with some options.
func (a *absurd) stage(i int) *stage.Stage[int] {
	var opts []stage.Option
	for _, option := range []func() stage.Option{
		func() stage.Option { return stage.Workers(a.number("fewest", 1, 2), a.number("most", 2, 3)) },
		func() stage.Option { return stage.Instances(a.number("instances", 1, 2)) },
		func() stage.Option { return stage.Capacity(a.number("capacity", 1, 2, 100)) },
		func() stage.Option { return stage.Batch(a.number("batch", 1, 2, 100)) },
		func() stage.Option { return stage.Overflow(overflow.Rule(a.number("overflow", 0, 1, 2, 3))) },
		func() stage.Option { return stage.Linger(a.span("linger")) },
		func() stage.Option { return stage.Timeout(a.long("timeout")) },
		func() stage.Option {
			if a.mad() {
				return stage.Grace(a.long("grace"))
			}
			return stage.Grace(0)
		},
		func() stage.Option { return stage.Discipline(a.discipline()) },
		stage.Blocking,
		func() stage.Option {
			return stage.Retry(stage.RetryPolicy{Attempts: a.number("attempts", 2, 3), Backoff: a.span("backoff"), Max: a.span("max"), Jitter: a.fraction("jitter")})
		},
		func() stage.Option {
			return stage.Restart(stage.RestartPolicy{Limit: a.number("limit", 0, 1, 3), Backoff: a.span("backoff"), Max: a.span("max"), Within: a.span("within")})
		},
		func() stage.Option { return stage.Out(a.port(), a.port()) },
		func() stage.Option {
			if a.mad() {
				return stage.Out(nil)
			}
			return stage.Out()
		},
		func() stage.Option { return nil },
	} {
		if rapid.IntRange(0, 3).Draw(a.t, "given") == 3 {
			opts = append(opts, option())
		}
	}
	name := a.name("stage", fmt.Sprintf("s%d", i))
	if a.mad() {
		return stage.Each(name, behaviour.Factory[int](nil), opts...)
	}
	return stage.New(name, behaviour.Behaviour[int](fn(echo[int])), opts...)
}

// long returns a time limit or a grace that is not so short that a busy machine misses it.
func (a *absurd) long(label string) time.Duration {
	if d := a.span(label); d <= 0 || d > time.Second {
		return d
	}
	return 10 * time.Second
}

func (a *absurd) port() behaviour.Outlet {
	if a.mad() {
		return (*behaviour.Port[int])(nil)
	}
	port := behaviour.NewPort[int](fmt.Sprintf("p%d", len(a.ports)))
	a.ports = append(a.ports, port)
	return port
}

func (a *absurd) discipline() queue.Discipline {
	if a.mad() {
		return rapid.SampledFrom([]queue.Discipline{nil, queue.AdaptiveLIFO{}, (*queue.Priority)(nil)}).Draw(a.t, "discipline")
	}
	d, err := queue.ByName(rapid.SampledFrom(queue.Names()).Draw(a.t, "discipline"))
	if err != nil {
		a.t.Fatal(err)
	}
	return d
}
