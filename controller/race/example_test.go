package race_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/controller/race"
	"github.com/golda-dev/golda/controller/simulator"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// Which policy suits this pipeline? Record it for a minute while it works, and switch if that is worth it. (The example
// does not run with the tests, because it takes a minute.)
func ExampleLive() {
	ctx := context.Background()
	query := stage.Sink("query", func(context.Context, int) error {
		time.Sleep(20 * time.Millisecond)
		return nil
	}, stage.Blocking(), stage.Workers(2, 32))
	p, err := pipeline.New("shop", query, pipeline.Control(policy.Fixed{}))
	if err != nil {
		panic(err)
	}
	if err := p.Start(ctx); err != nil {
		panic(err)
	}
	go func() { // the load
		for n := 0; query.Submit(ctx, n) == nil; n++ {
			time.Sleep(5 * time.Millisecond)
		}
	}()

	report, err := race.Live(ctx, p, race.Aim{Within: 200 * time.Millisecond})
	if err != nil {
		panic(err)
	}
	fmt.Println(report)
	if best := report.Better(); best != nil {
		if err := p.SetPolicy(best.Policy); err != nil {
			panic(err)
		}
	}
	if err := p.Stop(ctx); err != nil {
		panic(err)
	}
}

// A load of another time is replayed with a model that the caller makes. Here the recording is made up; a program has it of
// a file, see Recorder.
func ExampleRun() {
	random := rand.New(rand.NewPCG(1, 2))
	recording := &race.Recording{Services: map[string][]time.Duration{}}
	for at := time.Duration(0); at < time.Minute; at += time.Duration(random.ExpFloat64() * 1e7) { // 100 a second
		recording.Arrivals = append(recording.Arrivals, at)
		recording.Services["query"] = append(recording.Services["query"], time.Duration(random.ExpFloat64()*4e7)) // of 40 ms
	}
	model := simulator.Model{
		Sources: []simulator.Source{{To: "query"}},
		Stages:  []simulator.Stage{{Name: "query", Service: simulator.Constant(0), Workers: 2, Most: 2}}, // the recording has the times
		Policy:  policy.Fixed{},
	}
	others := []controller.Policy{policy.Backlog{}, policy.CoDel{}}
	report, err := race.Run(context.Background(), model, recording, others, race.Aim{Within: 500 * time.Millisecond})
	if err != nil {
		panic(err)
	}
	fmt.Println("switch to", report.Better().Policy.Name())
	fmt.Printf("%.0f instead of %.0f a second are answered in time\n", report.Places[0].Goodput.Median, report.Present.Goodput.Median)
	// Output:
	// switch to codel
	// 49 instead of 0 a second are answered in time
}

// A program records its load in two places. Recording.ReadFrom reads the file.
func ExampleNewRecorder() {
	var file bytes.Buffer // os.Create(…)
	recorder := race.NewRecorder(&file)
	recorder.Arrived()                          // where it submits a command
	recorder.Took("query", 40*time.Millisecond) // where a handler ends
	if err := recorder.Flush(); err != nil {
		panic(err)
	}
	var recording race.Recording
	if _, err := recording.ReadFrom(&file); err != nil {
		panic(err)
	}
	fmt.Println(len(recording.Arrivals), recording.Services)
	// Output: 1 map[query:[40ms]]
}
