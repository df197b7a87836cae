package stagetest_test

import (
	"context"
	"fmt"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/stagetest"
)

// With a key that identifies commands, a command meets the same faults in every run.
func ExampleWrap() {
	faults, err := stagetest.NewInjector(7, stagetest.Faults{
		Error: 0.5,
		Key:   func(cmd any) uint64 { return uint64(len(cmd.(string))) },
	})
	fmt.Println(err)
	hello := behaviour.Func[string](func(_ context.Context, name string) behaviour.Outcome {
		return behaviour.OK("hello, " + name)
	})
	wrapped := stagetest.Wrap[string](faults, hello)
	for _, name := range []string{"Ada", "Grace", "Golda M", "Barbara L."} {
		o := wrapped.HandleCommand(context.Background(), name)
		fmt.Println(o.Kind(), o.Result(), o.Err())
	}
	fmt.Println(faults.Counts())
	// Output:
	// <nil>
	// ok hello, Ada <nil>
	// error <nil> stagetest: injected error at attempt 0
	// ok hello, Golda M <nil>
	// error <nil> stagetest: injected error at attempt 0
	// map[error:2]
}

// Diagnose describes where the commands of a pipeline are, and what may block them.
func ExampleDiagnose() {
	s := stage.Func("press", func(_ context.Context, n int) behaviour.Outcome { return behaviour.OK(n) }, stage.Workers(1, 1), stage.Capacity(2))
	p, err := pipeline.New("doc", s)
	if err != nil || p.Start(context.Background()) != nil || p.Pause(s) != nil {
		return
	}
	_, _ = s.Submit(context.Background(), 1), s.Submit(context.Background(), 2)
	fmt.Println(stagetest.Diagnose(p.Snapshot()))
	_ = p.Resume(s)
	_ = p.Stop(context.Background())
	fmt.Println(stagetest.Diagnose(p.Snapshot()))
	// Output:
	//   stage "press": 2 queued of 2, 0 in hand, 0 waiting for a retry; 1 workers of pool "press", 0 busy; paused; full
	//   nothing is in flight
}
