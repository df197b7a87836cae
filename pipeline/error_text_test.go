package pipeline_test

import (
	"context"
	"io"
	"log/slog"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// exiting is an error whose Error method ends its goroutine.
type exiting struct{}

func (exiting) Error() string { runtime.Goexit(); return "" }

// raging is an error whose Error method panics with the error itself.
type raging struct{}

func (r raging) Error() string { panic(r) }

// ill is a behaviour made of functions.
type ill struct {
	start, stop func() error
	handle      func(ctx context.Context, n int) behaviour.Outcome
}

func (i ill) Start(context.Context) error { return i.start() }
func (i ill) Stop()                       { _ = i.stop() }
func (i ill) HandleCommand(ctx context.Context, n int) behaviour.Outcome {
	return i.handle(ctx, n)
}

func well() ill {
	fine := func() error { return nil }
	return ill{fine, fine, echo[int]}
}

func TestACommandEndsOnceWhateverTheErrorMethodDoes(t *testing.T) {
	for name, bad := range map[string]error{"exits": exiting{}, "panics": raging{}} {
		panics := func(context.Context, int) behaviour.Outcome { panic(bad) }
		errs := func(context.Context, int) behaviour.Outcome { return behaviour.Error(bad) }
		late := func(ctx context.Context, _ int) behaviour.Outcome { <-ctx.Done(); return behaviour.Error(bad) }
		for _, c := range []struct {
			name string
			old  func(*ill)
			opts []stage.Option
		}{
			{name: "error", old: func(i *ill) { i.handle = errs }},
			{name: "late error", old: func(i *ill) { i.handle = late }, opts: []stage.Option{stage.Timeout(time.Second)}},
			{name: "retried error", old: func(i *ill) { i.handle = errs }, opts: []stage.Option{stage.Retry(stage.RetryPolicy{Attempts: 3})}},
			{name: "panic", old: func(i *ill) { i.handle = panics }},
			{name: "Stop", old: func(i *ill) { i.handle, i.stop = panics, func() error { panic(bad) } }},
			{name: "Retry.If", old: func(i *ill) { i.handle = errs }, opts: []stage.Option{stage.Retry(stage.RetryPolicy{
				Attempts: 3, If: func(error) bool { panic(bad) },
			})}},
			{name: "Retry.If of a panic", old: func(i *ill) { i.handle = panics }, opts: []stage.Option{stage.Retry(stage.RetryPolicy{
				Attempts: 3, If: func(error) bool { panic(bad) },
			})}},
		} {
			t.Run(name+"/"+c.name, func(t *testing.T) {
				eachWay(t, func(t *testing.T, way pipeline.Part) {
					make := func(change func(*ill)) behaviour.Factory[int] {
						return func() behaviour.Behaviour[int] {
							i := well()
							if change != nil {
								change(&i)
							}
							return i
						}
					}
					s := stage.Each("s", make(c.old), append(c.opts, stage.Workers(1, 1))...)
					p := bubble(t, s, way, pipeline.Logger(slog.New(slog.NewTextHandler(io.Discard, nil)))) //nolint:sloglint // it writes the texts out
					_, err := s.Upgrade(t.Context(), make(func(i *ill) { i.start = func() error { return bad } }))
					require.Error(t, err)
					var tickets []*stage.Ticket
					for n := range 6 {
						if n%2 == 0 {
							require.NoError(t, s.Submit(t.Context(), n))
							continue
						}
						ticket, err := s.Ask(t.Context(), n)
						require.NoError(t, err)
						tickets = append(tickets, ticket)
					}
					time.Sleep(time.Minute)
					synctest.Wait()
					for i, ticket := range tickets {
						select {
						case <-ticket.Done():
						default:
							t.Errorf("ticket %d has not ended", i)
						}
					}
					require.NoError(t, p.Stop(soon(t)))
					atRest(t, p)
				})
			})
		}
	}
}
