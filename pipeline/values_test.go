package pipeline_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/internal/part"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/letters"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/overflow"
	"github.com/golda-dev/golda/stage/queue"
	"github.com/golda-dev/golda/supervisor"
	"github.com/golda-dev/golda/window"
)

// Each value is refused by New, with an error that names the option, says what is wrong with it, and is short.
func TestNewRefusesEachValueThatWouldNotWork(t *testing.T) {
	type part = pipeline.Part
	long := strings.Repeat("x", 1<<20)
	of := func(opts ...stage.Option) []part { return []part{stage.Func("s", echo[int], opts...)} }
	lines := func(src source.Source[string]) []part {
		return []part{pipeline.Feed("f", stage.Func("s", echo[string]), src)}
	}
	numbers := func(src source.Source[int]) []part {
		return []part{pipeline.Feed("f", stage.Func("s", echo[int]), src)}
	}
	save := func(context.Context, int64) error { return nil }
	key := func(n int) int { return n }
	second := window.Bounds[int]{Time: time.Second}
	bounds := func(change func(b *window.Bounds[int])) []part {
		b := second
		change(&b)
		return []part{led(window.By("w", key, b))}
	}
	with := func(p ...part) []part { return append(of(), p...) }
	for name, row := range map[string]struct {
		parts []part
		says  string
	}{
		"a nil policy":                   {with(pipeline.Control(nil)), "Control: the policy is nil"},
		"a policy that is a nil pointer": {with(pipeline.Control((*policy.Backlog)(nil))), "Control: the policy is a nil *policy.Backlog"},
		"one of several that is":         {with(pipeline.Control(policy.Batching{}, (*policy.Backlog)(nil))), "Control: the policy is a nil *policy.Backlog"},
		"a nil policy of a stage":        {with(pipeline.ControlFor("s", (*policy.Backlog)(nil))), `ControlFor("s"): the policy is a nil *policy.Backlog`},

		"no source":                         {numbers(nil), `Feed "f": the source is nil`},
		"From without a function":           {numbers(source.From[int](nil)), "source: From: the function is nil"},
		"Ends without a function":           {numbers(source.Ends[int](nil)), "source: Ends: the function is nil"},
		"Seq without a sequence":            {numbers(source.Seq[int](nil)), "source: Seq: the sequence is nil"},
		"Chan without a channel":            {numbers(source.Chan[int](nil)), "source: Chan: the channel is nil"},
		"Files without patterns":            {lines(source.Files()), "source: Files: there is no pattern"},
		"Files with an empty pattern":       {lines(source.Files("a", "")), "source: Files: pattern 2 is empty"},
		"Lines without a reader":            {lines(source.Lines(nil, 0)), "source: Lines: the reader is nil"},
		"Lines of a nil file":               {lines(source.Lines((*os.File)(nil), 0)), "source: Lines: the file is nil"},
		"Lines of a negative length":        {lines(source.Lines(strings.NewReader(""), -1)), "source: Lines: the longest line of -1 bytes must not be negative"},
		"Checkpoint without a source":       {numbers(source.Checkpoint[int](nil, 0, save)), "source: Checkpoint: the source is nil"},
		"Checkpoint without a save":         {numbers(source.Checkpoint(source.Slice([]int{1}), 0, nil)), "source: Checkpoint: the function that saves is nil"},
		"Checkpoint of a negative position": {numbers(source.Checkpoint(source.Slice([]int{1}), -1, save)), "source: Checkpoint: the position -1 must not be negative"},
		"Checkpoint of a refused source":    {numbers(source.Checkpoint(source.Seq[int](nil), 0, save)), "source: Seq: the sequence is nil"},
		"Every of nothing":                  {[]part{pipeline.Feed("f", stage.Func("s", echo[time.Time]), source.Every(0))}, "source: Every(0s): the period must be above 0"},
		"Schedule without a function":       {[]part{pipeline.Feed("f", stage.Func("s", echo[time.Time]), source.Schedule(nil))}, "source: Schedule: the function for the next time is nil"},

		"PriorityOf nothing":    {of(stage.Discipline(queue.PriorityOf[int](nil))), `stage "s": Discipline(priority): queue: PriorityOf: the function is nil`},
		"DeadlineOf nothing":    {of(stage.Discipline(queue.DeadlineOf[int](nil))), `stage "s": Discipline(deadline): queue: DeadlineOf: the function is nil`},
		"a Linger of 292 years": {of(stage.Linger(math.MaxInt64)), `stage "s": Linger(2562047h47m16.854775807s): must be at most 24h0m0s`},
		"a negative Timeout":    {of(stage.Timeout(-1)), `stage "s": Timeout(-1ns): must not be negative`},

		"Workers twice":               {of(stage.Workers(1, 2), stage.Batch(3), stage.Workers(1, 4)), `stage "s": Workers: is given twice, by options 1 and 3`},
		"an option of a Keyed twice":  {[]part{stage.Keyed("s", key, func(int) behaviour.Func[int] { return nil }, stage.Batch(3), stage.Batch(4))}, `stage "s": Batch: is given twice, by options 1 and 2`},
		"Defaults behind the option":  {of(stage.Capacity(1), stage.Defaults(stage.Capacity(2))), `stage "s": Capacity: is given twice, by options 1 and 2`},
		"a nil option among Defaults": {of(stage.Defaults(nil)), `stage "s": Defaults, option 1: is nil`},

		"an option of a window twice": {[]part{led(window.By("w", key, second, stage.Capacity(1), stage.TTL(1), stage.Capacity(2)))},
			`stage "w": Capacity: is given twice, by options 1 and 3: keep one`},
		"an option of an Aggregate twice": {[]part{led(window.Aggregate("w", key, func(n, _ int) int { return n }, second, stage.TTL(1), stage.TTL(2)))},
			`stage "w": TTL: is given twice, by options 1 and 2`},
		"Workers of a window": {[]part{led(window.By("w", key, second, stage.Workers(2, 4)))},
			`stage "w": Workers: cannot be set, since a window sets it itself; in stage.Defaults it does not count`},
		"Instances of a Join":   {[]part{led(window.Join("w", key, window.Parts[int]{Count: 2, Limit: 1}, stage.Instances(4)))}, `stage "w": Instances: cannot be set`},
		"Workers of a Debounce": {[]part{led(window.Debounce("w", key, 1, 2, stage.Workers(4, 4)))}, `stage "w": Workers: cannot be set`},
		"Retry of an Aggregate": {[]part{led(window.Aggregate("w", key, func(n, _ int) int { return n }, second, stage.Retry(stage.RetryPolicy{Attempts: 2})))},
			`stage "w": Retry: cannot be set`},
		"an option twice in Defaults": {of(stage.Defaults(stage.TTL(1), stage.TTL(2))), `stage "s": TTL: is given twice, by options 1 and 2`},

		"more in a window than are held":   {bounds(func(b *window.Bounds[int]) { b.Count, b.Held = 9, 8 }), `stage "w": Bounds.Count(9): is more than Held, 8`},
		"a Time without a unit":            {bounds(func(b *window.Bounds[int]) { b.Time = 1 }), `stage "w": Bounds.Time(1ns): must be at least 1µs: perhaps its unit is missing`},
		"an Every without a unit":          {bounds(func(b *window.Bounds[int]) { b.Every = 1 }), `Bounds.Every(1ns): must be at least 1µs: perhaps its unit is missing`},
		"negative Bytes":                   {bounds(func(b *window.Bounds[int]) { b.Bytes, b.Size = -1, func(int) int { return 1 } }), `Bounds.Bytes(-1): must not be negative`},
		"a negative Capacity":              {of(stage.Capacity(-1)), `stage "s": Capacity(-1): must be at least 1`},
		"more than are held by default":    {bounds(func(b *window.Bounds[int]) { b.Count = 10_001 }), `Bounds.Count(10001): is more than Held, 10000`},
		"more parts than are held":         {[]part{led(window.Join("w", key, window.Parts[int]{Count: 9, Held: 8, Limit: 1}))}, `stage "w": Parts.Count(9): is more than Held, 8`},
		"more parts of a ticket":           {[]part{led(window.JoinTicket("w", window.Parts[int]{Count: 9, Held: 8, Limit: 1}))}, `Parts.Count(9): is more than Held, 8`},
		"as many held as an int can count": {bounds(func(b *window.Bounds[int]) { b.Held = math.MaxInt }), `Bounds.Held(9223372036854775807): must be at most 16777216`},

		"a long name of a stage": {[]part{stage.Func(long, echo[int])}, "the name is longer than 255 bytes"},
		"a long name of a group": {[]part{pipeline.Group(long, 1, 2, stage.Func("s", echo[int]))}, "the name is longer than 255 bytes"},
		"a long name of a feed":  {[]part{pipeline.Feed(long, stage.Func("s", echo[int]), source.Slice([]int{1}))}, "the name is longer than 255 bytes"},
		"a long name of a port":  {of(stage.Out(behaviour.NewPort[int](long))), "the name is longer than 255 bytes"},
		"a long name of a flow":  {[]part{identity(long).To(identity("b"))}, "the name is longer than 255 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := pipeline.New("p", row.parts...)
			require.ErrorContains(t, err, row.says)
			assert.Less(t, len(err.Error()), 6000)
			var all interface{ Unwrap() []error }
			if assert.ErrorAs(t, err, &all) && !strings.Contains(name, "port") {
				assert.Len(t, all.Unwrap(), 1, "a fault is said once: %v", err)
			}
		})
	}
	_, err := pipeline.New(long, of()...)
	require.ErrorContains(t, err, "the name is longer than 255 bytes")
	require.Less(t, len(err.Error()), 2000)
}

// The options of each property are given once, whichever it is.
func TestNoOptionOfAStageIsGivenTwice(t *testing.T) {
	for name, o := range map[string]stage.Option{
		"Workers": stage.Workers(1, 2), "Instances": stage.Instances(2), "Capacity": stage.Capacity(2), "Overflow": stage.Overflow(overflow.Reject),
		"Discipline": stage.Discipline(queue.LIFO{}), "Batch": stage.Batch(2), "Linger": stage.Linger(1), "Retry": stage.Retry(stage.RetryPolicy{Attempts: 2}),
		"Restart": stage.Restart(stage.RestartPolicy{Limit: 3}), "Timeout": stage.Timeout(time.Minute), "TTL": stage.TTL(time.Minute),
		"ExpiresAt": stage.ExpiresAt(func(int) time.Time { return time.Time{} }), "Rate": stage.Rate(1, time.Second, 1),
		"RateBy": stage.RateBy(func(n int) int { return n }, 1, time.Second, 1),
	} {
		_, err := pipeline.New("p", stage.Func("s", echo[int], o))
		require.NoError(t, err, name)
		_, err = pipeline.New("p", stage.Func("s", echo[int], stage.Defaults(stage.Defaults(o), o), o))
		require.NoError(t, err, name)
		_, err = pipeline.New("p", stage.Func("s", echo[int], stage.Batch(1), stage.Linger(1), stage.Defaults(stage.Blocking(), o, o)))
		require.ErrorContains(t, err, name+": is given twice, by options 2 and 3", name)
		_, err = pipeline.New("p", stage.Func("s", echo[int], o, o))
		require.EqualError(t, err, fmt.Sprintf(
			`stage "s": %s: is given twice, by options 1 and 2: keep one, or give the first as stage.Defaults`, name))
	}
}

// An option of a pipeline is given once, too, unless it adds to what is there. The two may be in different Joins.
func TestNoOptionOfAPipelineIsGivenTwice(t *testing.T) {
	dir, f := t.TempDir(), func(stage.DeadLetter) {}
	s := func() pipeline.Part { return stage.Func("s", echo[int]) }
	for name, o := range map[string]pipeline.Part{
		"Logger": quiet, "System": pipeline.System(system()), "Intensity": pipeline.Intensity(1, time.Second),
		"Supervise": pipeline.Supervise(supervisor.OneForOne), "Backoff": pipeline.Backoff(supervisor.Backoff{First: 1, Max: 1}),
		"DrainTimeout": pipeline.DrainTimeout(time.Second), "Grace": pipeline.Grace(time.Second), "MaxInFlight": pipeline.MaxInFlight(5),
		"KeepLetters": pipeline.KeepLetters(letters.Options{Most: 5, Bytes: 5, Dir: dir}),
		"letters.Type[int]": letters.Type[int]{
			Size:   func(int) int { return 1 },
			Encode: func(int) ([]byte, error) { return nil, nil }, Decode: func([]byte) (int, error) { return 0, nil },
		},
		"Checkpoint": pipeline.Subgraph(pipeline.Checkpoint("file", time.Second)),
	} {
		_, err := pipeline.New("p", s(), o, pipeline.Subgraph(o))
		require.ErrorContains(t, err, fmt.Sprintf(`pipeline "p": %s: is given twice`, name), name)
		require.Equal(t, 1, strings.Count(err.Error(), "is given"), err)
		_, err = pipeline.New("p", s(), part.Defaults{o, o}, o)
		if err != nil { // a Checkpoint needs a feed
			require.NotContains(t, err.Error(), "is given", name)
		}
	}
	_, err := pipeline.New("p", s(), pipeline.Control(policy.Fixed{}), pipeline.Control(policy.Fixed{}))
	require.ErrorContains(t, err, "Control: is given 2 times")
	_, err = pipeline.New("p", s(), pipeline.ControlFor("s", policy.Fixed{}), pipeline.ControlFor("s", policy.Fixed{}))
	require.ErrorContains(t, err, `ControlFor("s"): it has a controller already`)
	show := pipeline.Subgraph(pipeline.ShowCommands(), pipeline.DeadLetters(f), pipeline.Failures(f), pipeline.Middleware(), pipeline.Assign("here", "s"))
	_, err = pipeline.New("p", s(), show, pipeline.Subgraph(pipeline.ShowCommands(), pipeline.DeadLetters(f), pipeline.Failures(f), pipeline.Middleware()))
	require.NoError(t, err)
}

func TestAnOptionBehindDefaultsReplacesTheirs(t *testing.T) {
	s := stage.Func("s", echo[int], stage.Defaults(stage.Capacity(5), stage.Workers(1, 1)), stage.Capacity(7))
	p := run(t, s)
	require.Equal(t, 7, p.Snapshot().Stages[0].Queue.Capacity)
}

func TestTwoStagesOfOneNameSayWhereBothWereMade(t *testing.T) {
	twins := map[string][2]pipeline.Part{
		"functions": {stage.Func("s", echo[int]), stage.Func("s", echo[int])},
		"flows":     {identity("s"), identity("s")},
		"windows":   {led(window.All("s", window.Bounds[int]{Count: 2})), led(window.All("s", window.Bounds[int]{Count: 2}))},
	}
	for name, two := range twins {
		_, err := pipeline.New("p", two[0], two[1])
		require.ErrorContains(t, err, `stage "s": there is another stage of that name: one was made at `, name)
		require.Regexp(t, `made at \S*_test\.go:\d+, the other at \S*_test\.go:\d+$`, err.Error(), name)
	}
}

func TestTheErrorOfAStageNamesItOnce(t *testing.T) {
	s := stage.Func("s", echo[int])
	err := s.Submit(t.Context(), 1)
	require.ErrorIs(t, err, stage.ErrNotRunning)
	require.EqualError(t, err, `stage "s": not running`)
}
