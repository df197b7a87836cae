package pipeline_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/letters"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/queue"
	"github.com/golda-dev/golda/supervisor"
)

// wrong is a policy whose parameters are wrong.
type wrong struct{}

func (wrong) Name() string               { return "wrong" }
func (wrong) Check() error               { return errNo }
func (wrong) New() controller.Controller { return nil }

func TestEachFaultIsFoundAndNamesItsPart(t *testing.T) {
	ok := fn(echo[int])
	port := func() *behaviour.Port[int] { return behaviour.NewPort[int]("out") }
	opt := func(o stage.Option) func() []pipeline.Part {
		return func() []pipeline.Part { return []pipeline.Part{stage.New("s", ok, o)} }
	}
	with := func(parts ...pipeline.Part) func() []pipeline.Part {
		return func() []pipeline.Part { return append(parts, stage.New("s", ok)) }
	}
	rows := map[string]struct {
		parts func() []pipeline.Part
		says  []string
	}{
		"no stage":                 {func() []pipeline.Part { return nil }, []string{"at least one stage"}},
		"a nil part":               {with(nil), []string{"part 1: is nil"}},
		"a nameless stage":         {func() []pipeline.Part { return []pipeline.Part{stage.New("", ok)} }, []string{"a stage needs a name"}},
		"a nil behaviour":          {func() []pipeline.Part { return []pipeline.Part{stage.New[int]("s", nil)} }, []string{`stage "s": New: the behaviour is nil`}},
		"a nil Func":               {func() []pipeline.Part { return []pipeline.Part{stage.Func[int]("s", nil)} }, []string{`stage "s": Func: the function is nil`}},
		"a nil Coroutine":          {func() []pipeline.Part { return []pipeline.Part{stage.Coroutine[int]("s", nil)} }, []string{`stage "s": Coroutine: the function is nil`}},
		"a nil func":               {func() []pipeline.Part { return []pipeline.Part{stage.New("s", fn[int](nil))} }, []string{`stage "s": New: the behaviour is nil`}},
		"a nil factory":            {func() []pipeline.Part { return []pipeline.Part{stage.Each("s", behaviour.Factory[int](nil))} }, []string{`stage "s": Each: the factory is nil`}},
		"two of one name":          {func() []pipeline.Part { return []pipeline.Part{stage.New("s", ok), stage.New("s", ok)} }, []string{`stage "s": there is another stage of that name`}},
		"a stage twice":            {func() []pipeline.Part { s := stage.New("s", ok); return []pipeline.Part{s, s} }, []string{`stage "s": is given twice`}},
		"a nil option":             {opt(nil), []string{`stage "s": option 1: is nil`}},
		"no capacity":              {opt(stage.Capacity(0)), []string{`stage "s": Capacity(0): must be at least 1`}},
		"no batch":                 {opt(stage.Batch(0)), []string{`stage "s": Batch(0): must be at least 1`}},
		"a batch too large":        {opt(stage.Batch(1 << 30)), []string{`Batch(1073741824): must be at most 65536`}},
		"too much capacity":        {opt(stage.Capacity(1 << 40)), []string{`Capacity(1099511627776): must be at most 1073741824`}},
		"too many workers":         {opt(stage.Workers(1, 1<<20)), []string{`the most workers must be at most 65536`}},
		"no workers":               {opt(stage.Workers(0, 3)), []string{`Workers(0, 3): the fewest workers must be at least 1`}},
		"workers crossed":          {opt(stage.Workers(4, 3)), []string{`Workers(4, 3): the fewest workers must not be more than the most`}},
		"a strange overflow":       {opt(stage.Overflow(9)), []string{`Overflow(9): no such rule`}},
		"a negative timeout":       {opt(stage.Timeout(-1)), []string{`Timeout(-1ns): must not be negative`}},
		"a timeout without a unit": {opt(stage.Timeout(30)), []string{`Timeout(30ns): must be at least 1µs: perhaps its unit is missing`}},
		"retry how, not if":        {opt(stage.Retry(stage.RetryPolicy{Backoff: time.Second})), []string{`asks for no retry, yet says how`}},
		"retry crossed":            {opt(stage.Retry(stage.RetryPolicy{Attempts: 2, Backoff: 2, Max: 1})), []string{`must not be less than Backoff`}},
		"retry jitter":             {opt(stage.Retry(stage.RetryPolicy{Attempts: 2, Jitter: 1.5})), []string{`Retry(Jitter: 1.5): must be from 0 to 1`}},
		"retry negative":           {opt(stage.Retry(stage.RetryPolicy{Attempts: -1, Backoff: -1})), []string{`Retry(Attempts: -1)`, `Retry(Backoff: -1ns)`}},
		"restart crossed":          {opt(stage.Restart(stage.RestartPolicy{Backoff: 2, Max: 1})), []string{`Restart(Backoff: 2ns, Max: 1ns)`}},
		"no discipline":            {opt(stage.Discipline(nil)), []string{`Discipline(nil): is nil`}},
		"a nil discipline":         {opt(stage.Discipline((*queue.Priority)(nil))), []string{`Discipline(nil): is nil`}},
		"a port of nil":            {opt(stage.Out((*behaviour.Port[int])(nil))), []string{`Out(port 1): is nil`}},
		"a nil port":               {opt(stage.Out(nil)), []string{`Out(port 1): is nil`}},
		"a port not wired":         {opt(stage.Out(port())), []string{`stage "s": port "out" is not wired; add pipeline.Wire`}},
		"a port twice":             {func() []pipeline.Part { p := port(); return []pipeline.Part{stage.New("s", ok, stage.Out(p, p))} }, []string{`Out("out"): declared twice`}},
		"a wire of no port": {func() []pipeline.Part {
			s := stage.New("s", ok)
			return []pipeline.Part{s, pipeline.Wire[int](nil, s)}
		}, []string{"wire 1: the port is nil"}},
		"a wire to no stage": {func() []pipeline.Part {
			p := port()
			return []pipeline.Part{stage.New("s", ok, stage.Out(p)), pipeline.Wire(p, nil)}
		}, []string{`port "out": is wired to no stage: its target is nil, or a port`}},
		"a wire out of the pipeline": {func() []pipeline.Part {
			p := port()
			return []pipeline.Part{stage.New("s", ok, stage.Out(p)), pipeline.Wire(p, stage.New("far", ok))}
		}, []string{`port "out": is wired to stage "far", which is not part of this pipeline`}},
		"a wire of an undeclared port": {func() []pipeline.Part {
			s := stage.New("s", ok)
			return []pipeline.Part{s, pipeline.Wire(port(), s)}
		}, []string{`port "out": no stage declares it; add stage.Out`}},
		"a port wired twice": {func() []pipeline.Part {
			p := port()
			s := stage.New("s", ok, stage.Out(p))
			return []pipeline.Part{s, pipeline.Wire(p, s), pipeline.Wire(p, s)}
		}, []string{`port "out": is wired twice`}},
		"no policy":                {with(pipeline.Control(nil)), []string{"Control: the policy is nil"}},
		"a wrong policy":           {with(pipeline.Control(wrong{})), []string{"Control: no"}},
		"two policies apart":       {with(pipeline.Control(policy.Fixed{}), pipeline.Control(policy.SEDA{})), []string{"Control: is given 2 times; give all policies to one Control"}},
		"two bounds":               {with(pipeline.MaxInFlight(2), pipeline.Subgraph(pipeline.MaxInFlight(1))), []string{"MaxInFlight: is given twice"}},
		"two numbers of letters":   {with(pipeline.KeepLetters(letters.Options{Most: 2}), pipeline.KeepLetters(letters.Options{Bytes: 2})), []string{"KeepLetters: is given twice"}},
		"two drain timeouts":       {with(pipeline.DrainTimeout(2), pipeline.DrainTimeout(2)), []string{"DrainTimeout: is given twice"}},
		"two graces":               {with(pipeline.Grace(2), pipeline.Grace(2)), []string{"Grace: is given twice"}},
		"two strategies":           {with(pipeline.Supervise(0), pipeline.Supervise(0)), []string{"Supervise: is given twice"}},
		"two backoffs":             {with(pipeline.Backoff(supervisor.Backoff{}), pipeline.Backoff(supervisor.Backoff{})), []string{"Backoff: is given twice"}},
		"no logger":                {with(pipeline.Logger(nil)), []string{"Logger: the logger is nil"}},
		"no logger, then one":      {with(pipeline.Logger(nil), quiet), []string{"Logger: the logger is nil"}},
		"an empty logger":          {with(pipeline.Logger(&slog.Logger{})), []string{"Logger: the logger has no handler; see slog.New"}},
		"no function for letters":  {with(pipeline.DeadLetters(nil)), []string{"DeadLetters: the function is nil"}},
		"no function for failures": {with(pipeline.Failures(nil)), []string{"Failures: the function is nil"}},
		"no system":                {with(pipeline.System(nil)), []string{"System: the system is nil; without System the pipelines of a program share one"}},
		"no entry":                 {with(pipeline.Entry()), []string{"Entry: names no stage"}},
		"an entry of wires":        {with(pipeline.Entry(pipeline.Subgraph())), []string{"Entry: names no stage"}},
		"a priority of strings": {opt(stage.Discipline(queue.PriorityOf(func(string) int { return 0 }))), []string{
			`stage "s": Discipline(priority): its function takes string, which no command of type int can be`,
		}},
		"a deadline of methods": {opt(stage.Discipline(queue.DeadlineOf(func(fmt.Stringer) time.Time { return time.Time{} }))), []string{
			`stage "s": Discipline(deadline): its function takes fmt.Stringer, which no command of type int can be`,
		}},
		"a stage's odd name": {func() []pipeline.Part { return []pipeline.Part{stage.New("s\xff", ok)} }, []string{`stage "s\xff": New("s\xff"): the name is not UTF-8`}},
		"a group's odd name": {func() []pipeline.Part {
			return []pipeline.Part{pipeline.Group("g\xff", 1, 1, stage.New("s", ok))}
		}, []string{`group "g\xff": the name is not UTF-8`}},
		"a port's odd name": {opt(stage.Out(behaviour.NewPort[int]("out\xff"))), []string{`stage "s": Out("out\xff"): the name is not UTF-8`}},
		"a process's odd name": {func() []pipeline.Part {
			return []pipeline.Part{stage.New("s", ok), pipeline.Assign("far\xff", "s")}
		}, []string{`Assign("far\xff"): the name is not UTF-8`}},
		"a strange strategy": {with(pipeline.Supervise(supervisor.Strategy(9))), []string{"Supervise: no such strategy: 9"}},
		"intensity for ever": {with(pipeline.Intensity(3, 0)), []string{"Intensity: 3 restarts within 0s"}},
		"a backoff that shrinks": {with(pipeline.Backoff(supervisor.Backoff{First: 2, Max: 1, Jitter: 7})), []string{
			"Backoff: Max 1ns must not be less than First 2ns; Jitter is 7; it must be from 0 to 1, or -1 for none",
		}},
		"a negative drain":       {with(pipeline.DrainTimeout(-1)), []string{"DrainTimeout: -1ns must not be negative"}},
		"a drain without a unit": {with(pipeline.DrainTimeout(25)), []string{"DrainTimeout: 25ns must be 0 or at least 1µs: perhaps its unit is missing"}},
		"a negative grace":       {with(pipeline.Grace(-1)), []string{"Grace: -1ns must not be negative"}},
		"a stage made by hand":   {func() []pipeline.Part { return []pipeline.Part{&stage.Stage[int]{}} }, []string{"part 1: is a stage that was not made with stage.New or stage.Each"}},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			p, err := pipeline.New("p", row.parts()...)
			require.Nil(t, p)
			for _, says := range row.says {
				require.ErrorContains(t, err, says)
			}
		})
	}
}

func TestAPipelineNeedsAName(t *testing.T) {
	_, err := pipeline.New("", stage.New("s", fn(echo[int])))
	require.ErrorContains(t, err, "a pipeline needs a name")
}

func TestThePipelineNameIsUTF8(t *testing.T) {
	_, err := pipeline.New("p\xff", stage.New("s", fn(echo[int])))
	require.ErrorContains(t, err, `pipeline "p\xff": New: the name is not UTF-8`)
}

func TestAPriorityForSomeCommandsOfAStageIsNotAFault(t *testing.T) {
	for name, s := range map[string]pipeline.Part{
		"the same type":       stage.New("s", fn(echo[int]), stage.Discipline(queue.PriorityOf(func(int) int { return 0 }))),
		"one type of several": stage.New("s", fn(echo[any]), stage.Discipline(queue.PriorityOf(func(int) int { return 0 }))),
		"an interface of it":  stage.New("s", fn(echo[time.Duration]), stage.Discipline(queue.PriorityOf(func(fmt.Stringer) int { return 0 }))),
		"two interfaces":      stage.New("s", fn(echo[error]), stage.Discipline(queue.DeadlineOf(func(fmt.Stringer) time.Time { return time.Time{} }))),
	} {
		_, err := pipeline.New("p", s)
		require.NoError(t, err, name)
	}
}

func TestAllFaultsAreReportedAtOnce(t *testing.T) {
	_, err := pipeline.New("p",
		stage.New[int]("a", nil, stage.Capacity(0), stage.Workers(3, 1)),
		stage.New("a", fn(echo[int])), pipeline.Control(nil))
	var all interface{ Unwrap() []error }
	require.ErrorAs(t, err, &all)
	require.Len(t, all.Unwrap(), 5, err)
	var of *stage.OptionError
	require.ErrorAs(t, err, &of)
	require.Equal(t, "a", of.Stage)
	var whole *pipeline.PartError
	require.ErrorAs(t, err, &whole)
}

func TestARefusedPipelineDoesNotChangeItsParts(t *testing.T) {
	port := behaviour.NewPort[int]("out")
	a := stage.New("a", fn(func(_ context.Context, n int) behaviour.Outcome { return behaviour.Forward(port, n) }), stage.Out(port))
	b := stage.New("b", fn(echo[int]))
	_, err := pipeline.New("p", a, b, pipeline.Wire(port, b), pipeline.Control(nil))
	require.Error(t, err)
	require.False(t, port.Wired())
	run(t, a, b, pipeline.Wire(port, b))
	n, err := stage.Call[int](soon(t), a, 3)
	require.NoError(t, err)
	require.Equal(t, 3, n)
}

func TestAStageIsPartOfOnePipelineOnly(t *testing.T) {
	s := stage.New("s", fn(echo[int]))
	made(t, s)
	fresh := stage.New("fresh", fn(echo[int]))
	_, err := pipeline.New("second", fresh, s)
	require.ErrorContains(t, err, `stage "s": is part of another pipeline already`)
	_, err = pipeline.New("third", fresh)
	require.NoError(t, err, "a fresh stage is free after the refusal")
}
