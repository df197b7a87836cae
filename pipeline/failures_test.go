package pipeline_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/letters"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/reason"
)

func TestACallReturnsTheErrorsOfAllCommandsThatItsHandlerEmitted(t *testing.T) {
	odd, even := errors.New("odd"), errors.New("even")
	page := stage.Func("page", func(_ context.Context, n int) behaviour.Outcome {
		return behaviour.Error(fmt.Errorf("page %d: %w", n, []error{even, odd}[n%2]))
	}, stage.Workers(1, 1))
	site := stage.Func("site", func(ctx context.Context, pages int) behaviour.Outcome {
		for n := range pages {
			if err := behaviour.Emit(ctx, page, n); err != nil {
				return behaviour.Error(err)
			}
		}
		return behaviour.OK(pages)
	}, stage.Workers(1, 1))
	run(t, site, page)
	_, err := stage.Call[int](soon(t), site, 40)
	require.ErrorIs(t, err, even)
	require.ErrorIs(t, err, odd, "there are more errors than that of the first page")
	var all *stage.JoinedError
	require.ErrorAs(t, err, &all)
	require.Equal(t, 40, all.Count)
	require.Len(t, all.Errs, 16)

	_, err = stage.Call[int](soon(t), site, 1)
	require.EqualError(t, err, `stage "page": page 0: even`)
}

// fetch is a command of a crawler.
type fetch struct {
	Page  int
	Token string
}

var errGone = errors.New("gone")

// crawl returns a site with a number of pages; a handler emits a command for each. Pages with odd numbers fail.
func crawl() (site *stage.Stage[int], page *stage.Stage[*fetch]) {
	page = stage.Func("page", func(_ context.Context, f *fetch) behaviour.Outcome {
		if f.Page%2 == 1 {
			return behaviour.Error(fmt.Errorf("page %d: %w", f.Page, errGone))
		}
		return behaviour.OK(nil)
	})
	site = stage.Func("site", func(ctx context.Context, pages int) behaviour.Outcome {
		for n := range pages {
			if err := behaviour.Emit(ctx, page, &fetch{Page: n}); err != nil {
				return behaviour.Error(err)
			}
		}
		return behaviour.OK(pages)
	})
	return site, page
}

func TestACommandThatFailsWithoutACallerLeavesALetter(t *testing.T) {
	for name, submit := range map[string]func(site *stage.Stage[int]){
		"submitted": func(site *stage.Stage[int]) { require.NoError(t, site.Submit(soon(t), 40)) },
		"called": func(site *stage.Stage[int]) {
			_, err := stage.Call[int](soon(t), site, 40)
			require.ErrorIs(t, err, errGone, "the caller gets the errors, but not the commands")
		},
	} {
		t.Run(name, func(t *testing.T) {
			site, page := crawl()
			p := run(t, site, page)
			submit(site)
			require.NoError(t, p.Drain(soon(t)))
			snap := p.Snapshot()
			require.EqualValues(t, 20, snap.Failed)
			list := p.Failures().List(letters.Filter{Stage: "page"})
			require.Len(t, list, 20)
			seen := map[int]bool{}
			for _, l := range list {
				f := l.Command.(*fetch)
				require.False(t, seen[f.Page])
				seen[f.Page] = true
				require.EqualError(t, l.Err, fmt.Sprintf("page %d: gone", f.Page))
				require.ErrorIs(t, l.Err, errGone)
				require.Equal(t, reason.Error, l.Reason)
				require.Equal(t, 1, l.Attempts)
				require.Equal(t, "test", l.Pipeline)
				require.NotZero(t, l.At)
				require.Equal(t, "site", l.EmittedBy)
			}
			groups := p.Failures().Groups()
			require.Len(t, groups, 1)
			require.Equal(t, "page #: gone", groups[0].Fingerprint)
			require.EqualValues(t, 20, groups[0].Seen)
			require.Zero(t, p.DeadLetters().Len()+p.Quarantine().Len())
		})
	}
}

func TestAFailureLeavesALetterUnlessItsCallerHasTheCommandAndTheError(t *testing.T) {
	s := stage.Func("s", func(context.Context, int) behaviour.Outcome { return behaviour.Error(errNo) })
	retried := stage.Func("retried", func(context.Context, int) behaviour.Outcome { return behaviour.Error(errNo) },
		stage.Retry(stage.RetryPolicy{Attempts: 3}))
	picky := stage.Func("picky", func(context.Context, int) behaviour.Outcome { return behaviour.Error(errNo) },
		stage.Retry(stage.RetryPolicy{Attempts: 3, If: func(error) bool { return false }}))
	p := run(t, s, retried, picky)
	for i, called := range []*stage.Stage[int]{s, picky, retried} {
		_, err := stage.Call[int](soon(t), called, i)
		require.ErrorIs(t, err, errNo)
	}
	list := p.Failures().List(letters.Filter{})
	require.Len(t, list, 1, "before the caller has the error")
	require.Equal(t, "retried", list[0].Stage, "it had all its attempts")
	require.Equal(t, 3, list[0].Attempts)
	require.Empty(t, list[0].EmittedBy)
}

func TestACommandWhoseCallerHasGivenUpLeavesNoLetter(t *testing.T) {
	begun := make(chan struct{})
	page := stage.Func("page", func(ctx context.Context, _ int) behaviour.Outcome {
		close(begun)
		<-ctx.Done()
		return behaviour.Error(ctx.Err())
	}, stage.Workers(1, 1))
	site := stage.Func("site", func(ctx context.Context, pages int) behaviour.Outcome {
		for n := range pages {
			if err := behaviour.Emit(ctx, page, n); err != nil {
				return behaviour.Error(err)
			}
		}
		return behaviour.OK(pages)
	})
	p := run(t, site, page)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-begun; cancel() }()
	_, err := stage.Call[int](ctx, site, 10)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, p.Drain(soon(t)))
	require.EqualValues(t, 10, p.Snapshot().Failed)
	require.Zero(t, p.Failures().Len())
}

func TestAFailureMayBeRetriedFixedAndExported(t *testing.T) {
	site, page := crawl()
	p := run(t, site, page)
	require.NoError(t, site.Submit(soon(t), 10))
	require.NoError(t, p.Drain(soon(t)))
	require.NoError(t, p.Reopen())
	failures := p.Failures()
	var out bytes.Buffer
	require.NoError(t, failures.Export(&out))
	require.Equal(t, 5, strings.Count(out.String(), `"reason":"error"`))
	require.Contains(t, out.String(), `"command":{"Page":1,"Token":""}`)
	require.Contains(t, out.String(), `"emitted_by":"site"`)
	for _, l := range failures.List(letters.Filter{}) {
		if l.Command.(*fetch).Page == 1 {
			require.NoError(t, failures.Retry(soon(t), l.ID))
			continue
		}
		require.NoError(t, failures.RetryAs(soon(t), l.ID, &fetch{Page: 2}))
	}
	require.NoError(t, p.Drain(soon(t)))
	list := failures.List(letters.Filter{})
	require.Len(t, list, 1, "the one that was not fixed has failed again")
	require.Equal(t, 1, list[0].Command.(*fetch).Page)
	require.EqualValues(t, 6, list[0].Seen)
	require.True(t, failures.Drop(list[0].ID))
	require.Zero(t, failures.Len())
}

func TestASubscriberIsCalledForEachFailureAndNothingIsLogged(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		log := &scribe{lines: map[string]int{}}
		var failed, dead atomic.Int64
		site, page := crawl()
		p := bubble(t, site, page, pipeline.Logger(slog.New(log)),
			pipeline.DeadLetters(func(stage.DeadLetter) { dead.Add(1) }),
			pipeline.Failures(func(l stage.DeadLetter) {
				require.Equal(t, 1, l.Command.(*fetch).Page%2)
				failed.Add(1)
				if l.Command.(*fetch).Page == 3 {
					panic("no")
				}
			}))
		require.NoError(t, site.Submit(t.Context(), 5000))
		require.NoError(t, p.Stop(t.Context()))
		require.EqualValues(t, 2500, failed.Load())
		require.Zero(t, dead.Load())
		lines, _ := log.told("command failed")
		require.Equal(t, 1, lines, "the letter for which it panicked")
		lines, _ = log.told("failure subscriber crashed")
		require.Equal(t, 1, lines)
	})
}

// logged returns the log lines of a pipeline whose commands have several types and all fail.
func logged(t *testing.T, cmd any, parts ...pipeline.Part) string {
	t.Helper()
	var out string
	bubbled(t, func(t *testing.T) {
		var b bytes.Buffer
		lines := guarded{new(sync.Mutex), &b}
		s := stage.Func("s", func(context.Context, any) behaviour.Outcome { return behaviour.Error(errNo) },
			stage.Retry(stage.RetryPolicy{Attempts: 2}))
		p := bubble(t, append(parts, s, pipeline.Logger(slog.New(slog.NewTextHandler(lines, nil))))...)
		require.NoError(t, s.Submit(t.Context(), cmd))
		synctest.Wait()
		require.NoError(t, p.Stop(t.Context()))
		out = b.String()
	})
	return out
}

type (
	secret  struct{ Name, Password string }
	logs    struct{ v slog.Value }
	says    func() string
	selfish []int
)

func (s secret) LogValue() slog.Value   { return slog.GroupValue(slog.String("name", s.Name)) }
func (l logs) LogValue() slog.Value     { return l.v }
func (s says) String() string           { return s() }
func (s *selfish) LogValue() slog.Value { return slog.AnyValue(s) }

func TestTheLogShowsTheCommandThatFailedIfTheUserWantsItTo(t *testing.T) {
	long := strings.Repeat("long ", 1000)
	deep := slog.StringValue("deep")
	for range 100 {
		deep = slog.GroupValue(slog.Attr{Key: "k", Value: deep})
	}
	circle := map[string]any{}
	circle["self"] = circle
	for name, c := range map[string]struct {
		cmd  any
		want string
	}{
		"plain":               {&fetch{Page: 7, Token: "t"}, `value="&{Page:7 Token:t}"`},
		"nil":                 {nil, "value=<nil>"},
		"its String method":   {says(func() string { return "words" }), "value=words"},
		"its LogValue method": {secret{"ann", "hunter2"}, "value.name=ann"},
		"long":                {long, `value="long long`},
		"a long log value":    {logs{slog.GroupValue(slog.String("a", long), slog.String("b", long))}, `value.a="long long`},
		"a deep log value":    {logs{deep}, "value.k.k.k.k="},
		"a circle":            {circle, "value="},
		"is itself":           {&selfish{1}, "value="},
		"panics":              {says(func() string { panic("no") }), "value="},
		"panics in the log":   {(*secret)(nil), "value="},
	} {
		t.Run(name, func(t *testing.T) {
			line := logged(t, c.cmd, pipeline.ShowCommands())
			require.Contains(t, line, `msg="command failed"`)
			require.Contains(t, line, "stage=s")
			require.Contains(t, line, "attempts=2")
			require.Contains(t, line, "error=no")
			require.Contains(t, line, c.want)
			require.NotContains(t, line, "hunter2")
			require.Less(t, len(line), 1100)
		})
	}
	line := logged(t, says(func() string { runtime.Goexit(); return "" }), pipeline.ShowCommands())
	require.Contains(t, line, `msg="command failed"`)
	require.Contains(t, line, "unreadable=")
}

// By default the log has nothing of a command: no method of it is called.
func TestTheLogNamesACommandByTypeAndLetter(t *testing.T) {
	called := says(func() string { panic("called") })
	for name, cmd := range map[string]any{
		"personal data": &fetch{Token: "hunter2"}, "a LogValue method": secret{"hunter2", "hunter2"}, "a String method": called,
	} {
		t.Run(name, func(t *testing.T) {
			line := logged(t, cmd)
			require.Contains(t, line, `msg="command failed" pipeline=bubble stage=s reason=error attempts=2 error=no`)
			require.Contains(t, line, fmt.Sprintf("command=%T letter=1\n", cmd))
			require.NotContains(t, line, "hunter2")
			require.NotContains(t, line, "unreadable")
		})
	}
}

// order is a command with a key that stays and a state that its program changes under a lock.
type order struct {
	customer string
	mu       sync.Mutex
	state    map[string]int
	card     string
}

func (o *order) change(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.state["n"], o.card = n, strings.Repeat("4", 16)
}

// The race detector fails this test if the log or a store reads a command: it sees that a map is read, also by package reflect.
func TestNothingReadsACommandThatItsProgramStillChanges(t *testing.T) {
	var out bytes.Buffer
	lines := guarded{new(sync.Mutex), &out}
	s := stage.Keyed("s", func(o *order) string { return o.customer }, func(string) behaviour.Behaviour[*order] {
		return behaviour.Func[*order](func(_ context.Context, o *order) behaviour.Outcome {
			o.mu.Lock()
			n := o.state["n"]
			o.mu.Unlock()
			if n%2 == 0 {
				panic("no")
			}
			return behaviour.Error(errNo)
		})
	}, stage.Workers(1, 1))
	p := start(t, s, pipeline.Logger(slog.New(slog.NewTextHandler(lines, nil))))
	stop := make(chan struct{})
	var changing sync.WaitGroup
	for i := range 20 {
		o := &order{customer: fmt.Sprint("customer ", i, " ", strings.Repeat("x", 1000)), state: map[string]int{"n": i}}
		require.NoError(t, s.Submit(t.Context(), o))
		changing.Go(func() {
			for n := i; ; n += 2 {
				select {
				case <-stop:
					return
				default:
					o.change(n)
					runtime.Gosched()
				}
			}
		})
	}
	require.NoError(t, p.Drain(soon(t)))
	close(stop)
	changing.Wait()
	require.NoError(t, p.Stop(soon(t)))
	require.NotContains(t, out.String(), "4444")
	require.Regexp(t, `msg="command failed" .* command=\*pipeline_test.order letter=1 key="customer \d+ x{40,60}\.\.\. \(cut\)"`, out.String())
	require.Regexp(t, `msg="handler crashed" .* command=\*pipeline_test.order letter=1 key="customer \d+ `, out.String())
}

// A crash that ends its command has one line, with all that is known, whether there is a subscriber or not; one after which the command is tried
// again has one, and is no warning.
func TestACrashLogsOneLine(t *testing.T) {
	for name, parts := range map[string][]pipeline.Part{
		"nothing is subscribed": nil, "a function is subscribed": {pipeline.DeadLetters(func(stage.DeadLetter) {})},
	} {
		t.Run(name, func(t *testing.T) {
			bubbled(t, func(t *testing.T) {
				var out bytes.Buffer
				lines := guarded{new(sync.Mutex), &out}
				s := stage.Func("s", func(context.Context, string) behaviour.Outcome { panic("poison") },
					stage.Retry(stage.RetryPolicy{Attempts: 2}))
				p := bubble(t, append(parts, s, pipeline.Logger(slog.New(slog.NewTextHandler(lines, nil))))...)
				require.NoError(t, s.Submit(t.Context(), "secret"))
				require.NoError(t, p.Stop(t.Context()))
				all := slices.DeleteFunc(strings.Split(out.String(), "\n"), func(line string) bool {
					return !strings.Contains(line, " stage=s ")
				})
				require.Len(t, all, 2)
				at := ` panic=poison at="pipeline_test\.\S+ failures_test\.go:\d+" fingerprint=[0-9a-f]+`
				require.Regexp(t, `level=INFO msg="handler crashed" pipeline=bubble stage=s attempt=1 again=true command=string`+at+` stack=`, all[0])
				require.Regexp(t, `level=WARN msg="handler crashed" pipeline=bubble stage=s attempt=2 again=false command=string letter=1`+at+`$`, all[1])
				require.NotContains(t, out.String(), "secret")
			})
		})
	}
}
