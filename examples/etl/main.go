// Etl sums up a log, is killed five times meanwhile, and has the same bytes in
// the end.
//
//	go run ./examples/etl                # 2,000,000 lines
//	go run ./examples/etl -n 20000000 -kills 50
//
// It writes a log of a day, and counts the requests and bytes of each minute
// and host, by the times of the events. A child process, the same program, does
// that with a pipeline that has a checkpoint. The first child is left alone.
// Then others do it again in another directory, and are killed with SIGKILL:
// the sums are in memory then, and the next child continues from the
// checkpoint. At the end etl compares the reports of both byte by byte, and
// with the report of a loop. The exit status is 1 if they differ.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/golda-dev/golda/examples/internal/show"
)

func main() {
	if work := os.Getenv(workEnv); work != "" {
		os.Exit(child(work))
	}
	show.Main(run)
}

// config holds the values of the flags.
type config struct {
	lines, kills int
	period       time.Duration
	json         bool
}

// run runs the program and returns its exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c, err := parseFlags(args, stdout)
	if err != nil {
		return show.Usage(stderr, "etl", err)
	}
	return show.Status(stderr, "etl", c.work(ctx, stdout))
}

// work does all, and reports it.
func (c config) work(ctx context.Context, stdout io.Writer) error {
	progress := stdout
	if c.json {
		progress = nil
	}
	r, err := c.execute(ctx, progress)
	if err != nil {
		return err
	}
	if c.json {
		err = json.NewEncoder(stdout).Encode(r)
	} else {
		_, err = io.WriteString(stdout, r.text())
	}
	return errors.Join(err, r.check(c.kills))
}

func parseFlags(args []string, help io.Writer) (c config, err error) {
	flags := flag.NewFlagSet("etl", flag.ContinueOnError)
	flags.IntVar(&c.lines, "n", 2_000_000, "`number` of lines")
	flags.IntVar(&c.kills, "kills", 5, "`number` of kills")
	flags.DurationVar(&c.period, "period", 200*time.Millisecond, "`duration` between two checkpoints")
	flags.BoolVar(&c.json, "json", false, "print one JSON object instead of text")
	const about = "etl sums up a log, is killed five times meanwhile, and has the same bytes in the end."
	if err := show.Parse(flags, args, about, help); err != nil {
		return c, err
	}
	return c, errors.Join(
		show.NoArguments(flags),
		show.Fault(c.lines < 1, "-n %d: at least 1", c.lines),
		show.Fault(c.kills < 0, "-kills %d: at least 0", c.kills),
		show.Fault(c.period < 10*time.Millisecond, "-period %v: at least 10ms", c.period),
	)
}

// result has the results of both runs.
type result struct {
	Lines   int   `json:"lines"`
	Bytes   int64 `json:"bytes"`
	Results int   `json:"results"` // lines of the report
	Without ran   `json:"without_kills"`
	With    ran   `json:"with_kills"`
	Same    bool  `json:"same"`  // the reports of both
	Right   bool  `json:"right"` // the report equals the loop's report
}

// ran is how a run went.
type ran struct {
	Killed int           `json:"killed"`
	Afresh int           `json:"afresh"` // processes after the first that found no checkpoint
	Again  int64         `json:"again"`  // bytes that were read again after a kill
	Took   time.Duration `json:"took_ns"`

	behind int64 // position at which the last child was killed
}

// text returns the result for people.
func (r result) text() string {
	rate := func(of ran) string {
		return fmt.Sprintf("%s, %.0f lines a second", show.Brief(of.Took), float64(r.Lines)/of.Took.Seconds())
	}
	verdict := map[bool]string{true: "the same", false: "NOT THE SAME"}
	return fmt.Sprintf(`without kills: %s
with %d kills: %s, %.1f %% of the log was read again
report: %d lines
bytes with and without kills: %s
bytes of a loop: %s
`, rate(r.Without), r.With.Killed, rate(r.With), 100*float64(r.With.Again)/float64(r.Bytes), r.Results, verdict[r.Same], verdict[r.Right])
}

// check returns an error if a promise is broken.
func (r result) check(kills int) error {
	return errors.Join(
		show.Fault(!r.Same, "the report of the run with kills differs"),
		show.Fault(!r.Right, "the report of the run without kills is not that of a loop"),
		show.Fault(r.With.Killed != kills, "%d processes were killed, not %d: more lines take longer, see -n", r.With.Killed, kills),
		show.Fault(r.With.Afresh > 0, "%d processes began at the beginning", r.With.Afresh),
	)
}
