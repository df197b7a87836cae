package stage_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// crate is a command of 80 bytes that is passed by value.
type crate struct {
	owner, label string
	n            int
	_            [5]int
}

func (c crate) key() int { return c.n % 500 }

// A command passed by value costs no allocation either: it travels in a box that is used again. The test allows a hundred for each
// run of a thousand commands over five hops: on a busy machine more commands wait at once, and need boxes.
func TestAllocsPerRunOfAThousandValueCommandsOverFiveHopsAreNone(t *testing.T) {
	if raced {
		t.Skip("the race detector has a pool forget what is put into it")
	}
	const n = 1000
	cmds := make([]crate, n)
	for i := range cmds {
		cmds[i] = crate{"owner", "label", i, [5]int{}}
	}
	pass := func(_ context.Context, c crate) (crate, error) { return c, nil }
	emit := func(name string, to behaviour.Target[crate], opts ...stage.Option) *stage.Stage[crate] {
		return stage.Func(name, func(ctx context.Context, c crate) behaviour.Outcome {
			if err := behaviour.Emit(ctx, to, c); err != nil {
				return behaviour.Error(err)
			}
			return behaviour.OK(nil)
		}, opts...)
	}
	flows := func(end func(crate), opts ...stage.Option) (*stage.Stage[crate], []pipeline.Part) {
		first := stage.Map("a", pass, opts...)
		last := stage.Sink("e", func(_ context.Context, c crate) error { end(c); return nil }, opts...)
		rest := stage.Chain(stage.Chain(stage.Chain(stage.Map("b", pass, opts...), stage.Filter("c", func(context.Context, crate) (bool, error) { return true, nil }, opts...)), stage.Map("d", pass, opts...)), last)
		return first.Stage, []pipeline.Part{first.To(rest), rest}
	}
	tests := map[string]func(end func(crate)) (*stage.Stage[crate], []pipeline.Part){
		"flows": func(end func(crate)) (*stage.Stage[crate], []pipeline.Part) { return flows(end) },
		"flows of one worker": func(end func(crate)) (*stage.Stage[crate], []pipeline.Part) {
			return flows(end, stage.Workers(1, 1))
		},
		"flows with a time to live": func(end func(crate)) (*stage.Stage[crate], []pipeline.Part) {
			return flows(end, stage.TTL(time.Hour))
		},
		"a group of flows": func(end func(crate)) (*stage.Stage[crate], []pipeline.Part) {
			first, parts := flows(end)
			return first, append(parts, pipeline.Group("all", 2, 2, parts[0]))
		},
		"behaviours that emit": func(end func(crate)) (*stage.Stage[crate], []pipeline.Part) {
			e := stage.Func("e", func(_ context.Context, c crate) behaviour.Outcome { end(c); return behaviour.OK(nil) })
			d := emit("d", e)
			c := emit("c", d)
			b := emit("b", c)
			a := emit("a", b)
			return a, []pipeline.Part{a, b, c, d, e}
		},
		"keyed stages": func(end func(crate)) (*stage.Stage[crate], []pipeline.Part) {
			keyed := func(name string, f func(context.Context, crate) behaviour.Outcome) *stage.Stage[crate] {
				return stage.Keyed(name, crate.key, func(int) behaviour.Func[crate] { return f })
			}
			sends := func(to behaviour.Target[crate]) func(context.Context, crate) behaviour.Outcome {
				return func(ctx context.Context, c crate) behaviour.Outcome {
					if err := behaviour.Emit(ctx, to, c); err != nil {
						return behaviour.Error(err)
					}
					return behaviour.OK(nil)
				}
			}
			e := keyed("e", func(_ context.Context, c crate) behaviour.Outcome { end(c); return behaviour.OK(nil) })
			d := stage.Map("d", pass)
			c := keyed("c", sends(d))
			b := stage.Map("b", pass)
			a := keyed("a", sends(b))
			return a, []pipeline.Part{a, b.To(c), d.To(e)}
		},
	}
	for name, build := range tests {
		t.Run(name, func(t *testing.T) {
			ended := make(chan struct{})
			var left, sum atomic.Int64
			first, parts := build(func(c crate) {
				sum.Add(int64(c.n))
				if left.Add(-1) == 0 {
					ended <- struct{}{}
				}
			})
			p, err := pipeline.New("alloc", append(parts, pipeline.Control(policy.Fixed{}))...)
			require.NoError(t, err)
			require.NoError(t, p.Start(t.Context()))
			for how, submit := range map[string]func(){
				"one by one": func() {
					for _, c := range cmds {
						if err := first.Submit(t.Context(), c); err != nil {
							t.Error(err)
						}
					}
				},
				"together": func() {
					if _, err := first.SubmitAll(t.Context(), cmds...); err != nil {
						t.Error(err)
					}
				},
			} {
				pass := func() {
					left.Store(n)
					sum.Store(0)
					submit()
					<-ended
					if sum.Load() != n*(n-1)/2 {
						t.Error("the commands are not those that were submitted")
					}
				}
				for range 5 {
					pass()
				}
				require.LessOrEqual(t, testing.AllocsPerRun(20, pass), float64(n)/10, how)
			}
			require.NoError(t, p.Stop(context.Background()))
		})
	}
}
