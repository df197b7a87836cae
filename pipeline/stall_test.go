package pipeline_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/guard"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
)

// stallLog is a log of which a test reads the lines about stalls.
type stallLog struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *stallLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(b)
}

var aboutStalls = regexp.MustCompile(`(?m)^.*(msg="stalled: |msg="a stall is over").*$`)

// lines returns the lines about stalls.
func (l *stallLog) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return aboutStalls.FindAllString(l.all.String(), -1)
}

// stalling is a pipeline that may stall, and what releases it.
type stalling struct {
	parts []pipeline.Part
	begin func(t *testing.T, p *pipeline.Pipeline)
	over  func() // ends a stall; nil if only a hard stop does
}

// alone returns the options of a stage with one worker that takes one command at a time.
func alone(more ...stage.Option) []stage.Option {
	return append([]stage.Option{stage.Workers(1, 1), stage.Batch(1)}, more...)
}

// callsOn returns a stage whose handlers call another one.
func callsOn(name string, of func() *stage.Stage[int], opts ...stage.Option) *stage.Stage[int] {
	return stage.Func(name, func(ctx context.Context, n int) behaviour.Outcome {
		got, err := stage.Call[int](ctx, of(), n)
		if err != nil {
			return behaviour.Error(err)
		}
		return behaviour.OK(got)
	}, alone(opts...)...)
}

// hungStage returns a stage whose handlers wait until it is released.
func hungStage(name string, opts ...stage.Option) (s *stage.Stage[int], release func()) {
	free := make(chan struct{})
	return stage.Func(name, func(_ context.Context, n int) behaviour.Outcome {
		<-free
		return behaviour.OK(n)
	}, alone(opts...)...), sync.OnceFunc(func() { close(free) })
}

func submits(s behaviour.Target[int], n int) func(*testing.T, *pipeline.Pipeline) {
	return func(t *testing.T, _ *pipeline.Pipeline) {
		t.Helper()
		for i := range n {
			submit(t, s, i)
		}
	}
}

func circleOfCalls(opts ...stage.Option) stalling {
	var a, b *stage.Stage[int]
	a = callsOn("a", func() *stage.Stage[int] { return b }, opts...)
	b = callsOn("b", func() *stage.Stage[int] { return a }, opts...)
	return stalling{parts: []pipeline.Part{a, b}, begin: submits(a, 1)}
}

func TestAStallIsLoggedOnceWithItsCircle(t *testing.T) {
	for name, row := range map[string]struct {
		build func() stalling
		says  []string
		not   string
	}{
		"calls in a circle": {func() stalling { return circleOfCalls() }, []string{
			`stages="a, b"`, `waiting for the answer to a command at stage \"b\"`, `waiting for the answer to a command at stage \"a\"`,
			`circle="a → b → a"`, "stall_test.go:",
		}, ""},
		"a circle of calls with a time limit that is long": {func() stalling { return circleOfCalls(stage.Timeout(3 * time.Hour)) }, []string{`circle="a → b → a"`}, ""},
		"full queues in a circle": {func() stalling {
			var a, b *stage.Stage[int]
			fills := func(name string, to func() *stage.Stage[int]) *stage.Stage[int] {
				return stage.Func(name, func(_ context.Context, n int) behaviour.Outcome {
					for range 3 { // as code outside of the pipeline does: a loop of handlers never waits for itself
						if err := to().Submit(context.Background(), n); err != nil {
							return behaviour.Error(err)
						}
					}
					return behaviour.OK(n)
				}, alone(stage.Capacity(1))...)
			}
			a = fills("a", func() *stage.Stage[int] { return b })
			b = fills("b", func() *stage.Stage[int] { return a })
			return stalling{parts: []pipeline.Part{a, b}, begin: submits(a, 1)}
		}, []string{`stages="a, b"`, `waiting for a free slot in stage \"b\"`, `waiting for a free slot in stage \"a\"`, `circle="a → b → a"`}, ""},
		"a call that waits for itself": {func() stalling {
			var a *stage.Stage[int]
			a = callsOn("a", func() *stage.Stage[int] { return a })
			return stalling{parts: []pipeline.Part{a}, begin: submits(a, 1)}
		}, []string{`stages=a`, `circle="a → a"`}, ""},
		"one handler that hangs": {func() stalling {
			s, release := hungStage("s")
			return stalling{[]pipeline.Part{s}, submits(s, 3), release}
		}, []string{`stages=s`, `stage \"s\": 1 handler in pipeline_test.hungStage`, "for 1m", "waiting for no known stage"}, "circle="},
		"a semaphore that is held": {func() stalling {
			held := make(chan struct{}, 1)
			held <- struct{}{}
			s := stage.Func("s", func(_ context.Context, n int) behaviour.Outcome {
				held <- struct{}{}
				defer func() { <-held }()
				return behaviour.OK(n)
			}, stage.Workers(3, 3), stage.Batch(1))
			return stalling{[]pipeline.Part{s}, submits(s, 9), sync.OnceFunc(func() { <-held })}
		}, []string{`stages=s`, `stage \"s\": 3 handlers in `}, "circle="},
		"the stages before one that hangs": {func() stalling {
			last, release := hungStage("last", stage.Capacity(1))
			first := stage.Func("first", func(_ context.Context, n int) behaviour.Outcome { return behaviour.Forward(last, n) }, alone(stage.Capacity(8), stage.Out(last))...)
			return stalling{[]pipeline.Part{first, last}, submits(first, 6), release}
		}, []string{`stages="first, last"`, `stage \"first\": 1 worker with commands to hand over, waiting for a free slot in stage \"last\"`}, "circle="},
		"a stage whose pool is in a handler that hangs": {func() stalling {
			s, release := hungStage("s")
			other := stage.New("other", fn(echo[int]))
			return stalling{[]pipeline.Part{pipeline.Group("g", 1, 1, s, other)}, func(t *testing.T, _ *pipeline.Pipeline) {
				submit(t, s, 1)
				synctest.Wait()
				submit(t, other, 1)
			}, release}
		}, []string{`stages="s, other"`, `a worker of pool g`}, "circle="},
	} {
		t.Run(name, func(t *testing.T) {
			bubbled(t, func(t *testing.T) {
				var log stallLog
				s := row.build()
				p := bubble(t, append(s.parts, loggedTo(&log), pipeline.Grace(time.Second))...)
				defer s.end(t, p)
				s.begin(t, p)
				time.Sleep(55 * time.Second)
				require.Empty(t, log.lines())
				time.Sleep(time.Hour)
				lines := log.lines()
				require.Len(t, lines, 1, strings.Join(lines, "\n"))
				require.Contains(t, lines[0], "level=WARN")
				for _, says := range row.says {
					require.Contains(t, lines[0], says)
				}
				if row.not != "" {
					require.NotContains(t, lines[0], row.not)
				}
				if s.over == nil {
					return
				}
				s.over()
				time.Sleep(3 * time.Second)
				lines = log.lines()
				require.Len(t, lines, 2)
				require.Contains(t, lines[1], `level=INFO msg="a stall is over"`)
				require.Regexp(t, "for=1h", lines[1])
				end(t, p)
			})
		})
	}
}

// loggedTo returns the part that has a pipeline log to w.
func loggedTo(w *stallLog) pipeline.Part {
	return pipeline.Logger(slog.New(slog.NewTextHandler(w, nil)))
}

// end ends what stalls, and stops the pipeline hard.
func (s *stalling) end(t *testing.T, p *pipeline.Pipeline) {
	t.Helper()
	if s.over != nil {
		s.over()
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_ = p.Stop(ended)
}

func TestAStallIsLoggedAgainWhenItBeginsAgain(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		var log stallLog
		s := newLock("s", alone()...)
		p := bubble(t, s, loggedTo(&log))
		for range 200 { // so that one long command is not how long commands take
			submit(t, s, 0)
			s.key <- struct{}{}
		}
		submit(t, s, 1, 2, 3)
		for n := range 2 {
			time.Sleep(2 * time.Minute)
			require.Len(t, log.lines(), 2*n+1)
			s.key <- struct{}{}
			time.Sleep(2 * time.Second)
			require.Len(t, log.lines(), 2*n+2)
		}
		s.open()
		end(t, p)
	})
}

func TestWorkThatIsLegalIsNoStall(t *testing.T) {
	for name, build := range map[string]func() stalling{
		"an empty pipeline": func() stalling {
			s := stage.New("s", fn(echo[int]))
			return stalling{parts: []pipeline.Part{s}, begin: submits(s, 0)}
		},
		"a handler that hangs while nothing waits for it": func() stalling {
			s, release := hungStage("s")
			return stalling{[]pipeline.Part{s}, submits(s, 1), release}
		},
		"a stage that is paused": func() stalling {
			s := stage.New("s", fn(echo[int]))
			return stalling{[]pipeline.Part{s}, func(t *testing.T, p *pipeline.Pipeline) {
				require.NoError(t, p.Pause(s))
				submit(t, s, 1, 2, 3)
			}, nil}
		},
		"a stage before one that is paused": func() stalling {
			last := stage.Func("last", echo[int], alone(stage.Capacity(1))...)
			first := stage.Func("first", func(_ context.Context, n int) behaviour.Outcome { return behaviour.Forward(last, n) }, alone(stage.Out(last))...)
			return stalling{[]pipeline.Part{first, last}, func(t *testing.T, p *pipeline.Pipeline) {
				require.NoError(t, p.Pause(last))
				submit(t, first, 1, 2, 3, 4, 5)
			}, nil}
		},
		"a caller of a stage that is paused": func() stalling {
			last := stage.Func("last", echo[int], alone()...)
			first := callsOn("first", func() *stage.Stage[int] { return last })
			return stalling{[]pipeline.Part{first, last}, func(t *testing.T, p *pipeline.Pipeline) {
				require.NoError(t, p.Pause(last))
				submit(t, first, 1, 2, 3)
			}, nil}
		},
		"a stage that is drained": func() stalling {
			s, release := hungStage("s")
			return stalling{[]pipeline.Part{s}, func(t *testing.T, p *pipeline.Pipeline) {
				submit(t, s, 1, 2, 3)
				go func() { _ = p.Drain(t.Context(), s) }()
			}, release}
		},
		"a handler that sleeps": func() stalling {
			s := stage.Func("s", func(_ context.Context, n int) behaviour.Outcome { time.Sleep(30 * time.Minute); return behaviour.OK(n) }, alone()...)
			return stalling{parts: []pipeline.Part{s}, begin: submits(s, 3)}
		},
		"handlers within their time limit": func() stalling {
			s, release := hungStage("s", stage.Timeout(3*time.Hour))
			return stalling{[]pipeline.Part{s}, submits(s, 3), release}
		},
		"handlers that take no longer than others have": func() stalling {
			s := stage.Func("s", func(_ context.Context, n int) behaviour.Outcome {
				<-time.After(time.Duration(n) * time.Minute)
				return behaviour.OK(n)
			}, stage.Workers(1, 1), stage.Batch(1))
			return stalling{parts: []pipeline.Part{s}, begin: func(t *testing.T, _ *pipeline.Pipeline) {
				require.NoError(t, s.Submit(t.Context(), 40))
				time.Sleep(time.Hour) // nothing waits for this one
				submit(t, s, 40, 40)
			}}
		},
		"a batch of commands that are handled one after the other": func() stalling {
			s := stage.Func("s", func(_ context.Context, cmd *int) behaviour.Outcome {
				<-time.After(time.Duration(*cmd) * time.Second)
				return behaviour.OK(*cmd)
			}, stage.Workers(1, 1), stage.Batch(256))
			return stalling{parts: []pipeline.Part{s}, begin: func(t *testing.T, _ *pipeline.Pipeline) {
				for range 500 {
					n := 7
					require.NoError(t, s.Submit(t.Context(), &n))
				}
			}}
		},
		"a rate": func() stalling {
			s := stage.Func("s", echo[int], alone(stage.Rate(1, 20*time.Minute, 1))...)
			return stalling{parts: []pipeline.Part{s}, begin: submits(s, 4)}
		},
		"a guard": func() stalling {
			open := false
			s := stage.Func("s", func(context.Context, any) behaviour.Outcome { return behaviour.OK(nil) },
				stage.Guard("int", func(func(string) guard.Counters) bool { return open }), stage.Workers(1, 1))
			return stalling{[]pipeline.Part{s}, func(t *testing.T, _ *pipeline.Pipeline) {
				require.NoError(t, s.Submit(t.Context(), 1))
				require.NoError(t, s.Submit(t.Context(), 2))
			}, nil}
		},
		"retries with back-off": func() stalling {
			s := stage.Func("s", func(context.Context, int) behaviour.Outcome { return behaviour.Error(errors.New("not yet")) },
				alone(stage.Retry(stage.RetryPolicy{Attempts: 4, Backoff: 20 * time.Minute, Max: time.Hour}))...)
			first := callsOn("first", func() *stage.Stage[int] { return s })
			return stalling{parts: []pipeline.Part{first, s}, begin: submits(first, 3)}
		},
		"a batch that lingers": func() stalling {
			s := stage.Func("s", echo[int], stage.Workers(1, 1), stage.Linger(40*time.Minute))
			return stalling{parts: []pipeline.Part{s}, begin: submits(s, 3)}
		},
		"handlers that are suspended": func() stalling {
			s := stage.Coroutine("s", func(c coroutine.Context, n int) behaviour.Outcome {
				if err := coroutine.Sleep(c, 40*time.Minute); err != nil {
					return behaviour.Error(err)
				}
				return behaviour.OK(n)
			}, stage.Workers(1, 1), stage.Instances(1))
			return stalling{parts: []pipeline.Part{s}, begin: submits(s, 3)}
		},
		"a feed whose source is idle": func() stalling {
			s := stage.New("s", fn(echo[int]))
			from := make(chan int)
			return stalling{parts: []pipeline.Part{s, pipeline.Feed("f", s, source.Chan(from))}, begin: func(*testing.T, *pipeline.Pipeline) { from <- 1 }}
		},
		"a stage that handles a command in half a minute": func() stalling {
			s := stage.Func("s", func(_ context.Context, n int) behaviour.Outcome {
				<-time.After(40 * time.Second)
				return behaviour.OK(n)
			}, alone()...)
			return stalling{parts: []pipeline.Part{s}, begin: submits(s, 100)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubbled(t, func(t *testing.T) {
				var log stallLog
				s := build()
				p := bubble(t, append(s.parts, loggedTo(&log), pipeline.Grace(time.Second), pipeline.Control(policy.Fixed{}))...)
				defer s.end(t, p)
				s.begin(t, p)
				time.Sleep(90 * time.Minute)
				require.Empty(t, log.lines())
			})
		})
	}
}
