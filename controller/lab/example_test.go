package lab_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/lab"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// double is the pipeline of the examples: one stage that doubles numbers.
func double(control pipeline.Part) (*pipeline.Pipeline, lab.Send, error) {
	work := stage.Map("double", func(_ context.Context, n uint64) (uint64, error) { return 2 * n, nil })
	p, err := pipeline.New("doubles", work, control)
	return p, func(ctx context.Context, r lab.Request) error {
		_, err := work.Call(ctx, r.Seed)
		return err
	}, err
}

// Compare two policies of package policy and one with parameters of its own.
func ExampleCompare() {
	report, err := lab.Compare(context.Background(), lab.Experiment{
		Pipeline:   double,
		Workload:   lab.Poisson(500),
		Policies:   []string{"backlog", "fixed"},
		Candidates: []lab.Candidate{{Name: "eager", Policies: []controller.Policy{policy.SEDA{Threshold: 8}}}},
		Length:     100 * time.Millisecond,
		Runs:       2, // more are better: with five an interval holds the median with 94 %
		Late:       time.Minute,
		Deadline:   time.Minute, // a machine that runs tests may be busy
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, o := range report.Outcomes {
		fmt.Println(o.Candidate, len(o.Runs), "runs,", o.Figures[2].Name, o.Figures[2])
	}
	text, err := json.Marshal(report) // or fmt.Print(report), for a table
	fmt.Println(len(text) > 1000, err)
	var page strings.Builder
	fmt.Println(report.WriteHTML(&page))
	// Output:
	// backlog 2 runs, good 100.0
	// fixed 2 runs, good 100.0
	// eager 2 runs, good 100.0
	// true <nil>
	// <nil>
}

// A steady load: 1000 requests a second on average.
func ExamplePoisson() {
	w := lab.Poisson(1000)
	times, err := w.Times(1, 5*time.Millisecond) // with seed 1
	fmt.Println(w, times, err)
	// Output:
	// Poisson(1000/s) [593.131µs 661.135µs 697.632µs 3.157967ms 4.737197ms] <nil>
}

// An overload of two seconds, in runs of ten.
func ExampleBurst() {
	times, err := lab.Burst(100, 1000, 4*time.Second, 6*time.Second).Times(1, 10*time.Second)
	fmt.Println(len(times) > 2500, err)
	// Output:
	// true <nil>
}

// Bursts of a second on average, with four seconds on average between them.
func ExampleOnOff() {
	fmt.Println(lab.OnOff(100, 2000, 4*time.Second, time.Second))
	// Output:
	// OnOff(100/s for 4s, 2000/s for 1s)
}

// The times at which requests came in production, here a few.
func ExampleTrace() {
	times, err := lab.Trace(0, 30*time.Millisecond, 10*time.Millisecond).Times(1, time.Second)
	fmt.Println(times, err)
	// Output:
	// [0s 10ms 30ms] <nil>
}

// A file has a time a line, in seconds or as a duration.
func ExampleTraceFile() {
	file := filepath.Join(os.TempDir(), "lab-example-times.txt")
	_ = os.WriteFile(file, []byte("# three requests\n0.25\n250ms\n1s\n"), 0o600)
	defer func() { _ = os.Remove(file) }()
	times, err := lab.TraceFile(file).Times(1, time.Minute)
	fmt.Println(times, err)
	// Output:
	// [250ms 250ms 1s] <nil>
}
