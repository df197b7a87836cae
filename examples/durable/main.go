// Durable is a pipeline whose process is killed each second, and that loses
// nothing.
//
//	go run ./examples/durable                  # 5,000 commands, some seconds
//	go run ./examples/durable -n 100000 -each 1ms -workers 32
//	go run ./examples/durable -nats nats://127.0.0.1:4222   # with a server of your own
//	go run ./examples/durable -nats nats://127.0.0.1:4222 -status   # meanwhile, in another terminal
//
// It publishes commands to a durable inlet. A child process, the same program,
// feeds a pipeline from it, and is killed with SIGKILL each second until all is
// done. Without -nats the server with the messages is inside the child, and
// dies with it. At the end durable compares the outcomes of the commands with
// the published commands. The exit status is 1 if a command is lost, or if an
// outcome was kept twice.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/golda-dev/golda/examples/internal/processes"
	"github.com/golda-dev/golda/examples/internal/show"
)

func main() {
	if work := os.Getenv(workEnv); work != "" {
		os.Exit(child(work))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// config holds the values of the flags.
type config struct {
	commands, workers, rotten int
	each, every               time.Duration
	nats                      string
	json, status              bool
}

// run runs the program and returns its exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c, err := parseFlags(args, stdout)
	if err != nil {
		return show.Usage(stderr, "durable", err)
	}
	if c.status {
		return show.Status(stderr, "durable", processes.Show(ctx, stdout, c.nats, pipelineName))
	}
	return show.Status(stderr, "durable", c.work(ctx, stdout))
}

// work does all, and reports it.
func (c config) work(ctx context.Context, stdout io.Writer) error {
	r, err := c.execute(ctx)
	if err != nil {
		return err
	}
	if c.json {
		err = json.NewEncoder(stdout).Encode(r)
	} else {
		_, err = io.WriteString(stdout, r.text())
	}
	return errors.Join(err, r.check())
}

func parseFlags(args []string, help io.Writer) (c config, err error) {
	flags := flag.NewFlagSet("durable", flag.ContinueOnError)
	flags.IntVar(&c.commands, "n", 5000, "`number` of commands")
	flags.IntVar(&c.workers, "workers", 16, "`number` of commands that are handled at once")
	flags.IntVar(&c.rotten, "rotten", 1000, "each command whose number is a multiple of this `number` fails for good; 0 is none")
	flags.DurationVar(&c.each, "each", 10*time.Millisecond, "`duration` of a command")
	flags.DurationVar(&c.every, "kill", time.Second, "`duration` after which the process is killed")
	flags.StringVar(&c.nats, "nats", "", "`URL` of a NATS server with JetStream; without it, one is inside the process")
	flags.BoolVar(&c.status, "status", false, "print a table of the processes that run on the server of -nats, and do nothing else")
	flags.BoolVar(&c.json, "json", false, "print one JSON object instead of text")
	const about = "durable is a pipeline whose process is killed each second, and that loses nothing."
	if err := show.Parse(flags, args, about, help); err != nil {
		return c, err
	}
	return c, errors.Join(
		show.NoArguments(flags),
		show.Fault(c.commands < 1, "-n %d: at least 1", c.commands),
		show.Fault(c.workers < 1, "-workers %d: at least 1", c.workers),
		show.Fault(c.rotten < 0, "-rotten %d: at least 0", c.rotten),
		show.Fault(c.each < 0, "-each %v: at least 0", c.each),
		show.Fault(c.every <= 0, "-kill %v: above 0", c.every),
		show.Fault(c.every > 0 && c.every <= c.each, "-kill %v: longer than a command, -each %v, or none ends", c.every, c.each),
		show.Fault(c.status && c.nats == "", "-status needs -nats: the server inside a process cannot be reached from another one"),
		show.Fault(c.status && c.json, "-status and -json: one of them"),
	)
}

// result is the result of a run.
type result struct {
	Published    uint64        `json:"published"`
	Rotten       int           `json:"rotten"` // commands that fail for good
	Processes    int           `json:"processes"`
	Killed       int           `json:"killed"`
	Took         time.Duration `json:"took_ns"`
	Effects      int           `json:"effects"`       // commands that have left a line in the file
	Handled      int           `json:"handled"`       // lines in the file: commands, and how often they were handled again
	Outcomes     uint64        `json:"outcomes"`      // commands that have an outcome in the ledger
	Kept         uint64        `json:"outcomes_kept"` // times an outcome was kept
	DeadLettered uint64        `json:"dead_lettered"`
	Pending      uint64        `json:"pending"`
	Missing      []int         `json:"missing"` // commands without an effect, an outcome or a dead letter; the first ten
}

// text returns the result for people.
func (r result) text() string {
	return fmt.Sprintf(`published: %d
processes: %d, of which %d were killed, in %s
file: %d commands have left a line, %d lines are second ones (at least once)
ledger: %d commands have an outcome, %d were kept twice (effectively once)
dead letters: %d
law: published %d = done %d + dead-lettered %d + pending %d
`, r.Published, r.Processes, r.Killed, show.Brief(r.Took), r.Effects, r.Handled-r.Effects, r.Outcomes, r.Kept-r.Outcomes,
		r.DeadLettered, r.Published, r.Outcomes, r.DeadLettered, r.Pending)
}

// check returns an error if a promise is broken.
func (r result) check() error {
	done := int(r.Published) - r.Rotten
	return errors.Join(
		show.Fault(len(r.Missing) > 0, "lost: %v", r.Missing),
		show.Fault(r.Effects != done, "%d commands have left a line, not %d", r.Effects, done),
		show.Fault(r.Outcomes != r.Kept, "%d outcomes were kept %d times", r.Outcomes, r.Kept),
		show.Fault(r.DeadLettered != uint64(r.Rotten), "%d dead letters, not %d", r.DeadLettered, r.Rotten),
		show.Fault(r.Published != r.Outcomes+r.DeadLettered+r.Pending, "the law does not hold"),
	)
}
