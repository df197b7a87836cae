package upgrade_test

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/upgrade"
)

// greeting returns a factory of behaviours that greet with a word, and crash if it is empty.
func greeting(word string) behaviour.Factory[string] {
	return func() behaviour.Behaviour[string] {
		return behaviour.Func[string](func(_ context.Context, name string) behaviour.Outcome {
			if word == "" {
				panic("nothing to say")
			}
			return behaviour.OK(word + " " + name)
		})
	}
}

// Half of the commands go to a new version, and the first of them crashes it. The old version answers that command, and all
// that follow.
func ExampleCanary() {
	greet := stage.Each("greet", greeting("hello"))
	p, err := pipeline.New("example", greet, pipeline.Logger(slog.New(slog.DiscardHandler)))
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	if err := p.Start(ctx); err != nil {
		panic(err)
	}
	defer func() { _ = p.Stop(ctx) }()

	up, err := greet.Upgrade(ctx, greeting(""), upgrade.Canary(0.5), upgrade.PromoteAfter(1000, time.Hour))
	if err != nil {
		panic(err)
	}
	for _, name := range []string{"ann", "bob", "cid"} {
		fmt.Println(stage.Call[string](ctx, greet, name))
	}
	fmt.Println(up.Wait(ctx))
	status := up.Status()
	fmt.Println(status.State, status.Old.Commands, status.New.Crashes)
	// Output:
	// hello ann <nil>
	// hello bob <nil>
	// hello cid <nil>
	// stage "greet": upgrade: stage: the new version did not stand its trial: stage "greet": crash at attempt 1: nothing to say
	// rolled back 1 1
}
