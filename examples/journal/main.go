// Journal has two stages write records of several lines to one file, which only one of them may do at a time. No lock says so: a
// synchronizer of the pipeline does, and the code of the stages does not know of it.
//
//	go run ./examples/journal
//	go run ./examples/journal -n 1000 -crash 0.3   # handlers crash in the middle of a record, and try again
//	go run ./examples/journal -without             # no synchronizer: records are torn
//	go run ./examples/journal -json
//
// At the end the program reads the file. The exit status is 1 if a record is torn, missing or there twice.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/coordination/synchronizer"
	"github.com/golda-dev/golda/examples/internal/show"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

func main() { os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr)) }

// config holds the values of the flags.
type config struct {
	n       int
	crash   float64
	without bool
	json    bool
}

// order and payment are the commands of the two stages.
type (
	order   struct{ Number int }
	payment struct{ Number int }
)

// run runs the program and returns its exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c, err := parseFlags(args, stdout)
	if err != nil {
		return show.Usage(stderr, "journal", err)
	}
	return show.Status(stderr, "journal", c.work(ctx, stdout))
}

// work writes the records of all commands to a file, and reports what is in it.
func (c config) work(ctx context.Context, stdout io.Writer) error {
	dir, err := os.MkdirTemp("", "journal")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	j, err := openJournal(filepath.Join(dir, "journal"))
	if err != nil {
		return err
	}
	defer j.close()
	snap, err := c.write(ctx, j)
	if err != nil {
		return err
	}
	r, err := j.check(c.n)
	if err != nil {
		return err
	}
	for _, s := range snap.Stages {
		r.Crashes += s.Crashes
		for _, m := range s.Methods {
			r.Held = append(r.Held, held{s.Name, m.HeldTimeBy["journal: AtMost(1)"].Round(time.Microsecond).String()})
		}
	}
	if err := r.print(stdout, c.json); err != nil {
		return err
	}
	return r.err()
}

// write runs the pipeline until each command has been handled.
func (c config) write(ctx context.Context, j *journal) (pipeline.Snapshot, error) {
	orders := stage.Func("orders", func(_ context.Context, o order) behaviour.Outcome {
		return outcome(j.write(fmt.Sprintf("order %d", o.Number), c.fault()))
	}, again()...)
	payments := stage.Func("payments", func(_ context.Context, p payment) behaviour.Outcome {
		return outcome(j.write(fmt.Sprintf("payment %d", p.Number), c.fault()))
	}, again()...)
	parts := []pipeline.Part{orders, payments, pipeline.Logger(slog.New(slog.DiscardHandler))} // the crashes are counted
	if !c.without {
		parts = append(parts, pipeline.Synchronize("journal", func(s *synchronizer.Synchronizer) {
			s.AtMost(1,
				synchronizer.Event{Of: orders, Method: "order"},
				synchronizer.Event{Of: payments, Method: "payment"})
		}))
	}
	p, err := pipeline.New("journal", parts...)
	if err != nil {
		return pipeline.Snapshot{}, err
	}
	if err := p.Start(ctx); err != nil {
		return pipeline.Snapshot{}, err
	}
	for i := range c.n {
		err = errors.Join(orders.Submit(ctx, order{i}), payments.Submit(ctx, payment{i}))
		if err != nil {
			break
		}
	}
	err = errors.Join(err, p.Stop(ctx))
	return p.Snapshot(), err
}

// again has a command that crashed tried again, many times, by a stage that endures it.
func again() []stage.Option {
	return []stage.Option{
		stage.Retry(stage.RetryPolicy{Attempts: 1000}),
		stage.Restart(stage.RestartPolicy{Limit: 1 << 20, Backoff: time.Microsecond, Max: time.Microsecond}),
	}
}

// fault returns what is called between two lines of a record: sometimes it panics.
func (c config) fault() func() {
	return func() {
		time.Sleep(10 * time.Microsecond) // the device is slow
		if rand.Float64() < c.crash {
			panic("the writer crashes in the middle of a record, as intended")
		}
	}
}

func outcome(err error) behaviour.Outcome {
	if err != nil {
		return behaviour.Error(err)
	}
	return behaviour.OK(nil)
}

// report is what the program has found in the file.
type report struct {
	Records int    `json:"records"`
	Whole   int    `json:"whole"`
	Torn    int    `json:"torn"`
	Missing int    `json:"missing"`
	Twice   int    `json:"twice"`
	Crashes uint64 `json:"crashes"`
	Held    []held `json:"held,omitempty"`
}

// held is for how long the synchronizer held back the commands of a stage.
type held struct {
	Stage string `json:"stage"`
	For   string `json:"for"`
}

func (r report) print(w io.Writer, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(r)
	}
	_, _ = fmt.Fprintf(w, "records: %d of %d whole, %d torn, %d missing, %d twice\ncrashes: %d\n",
		r.Whole, r.Records, r.Torn, r.Missing, r.Twice, r.Crashes)
	for _, h := range r.Held {
		_, _ = fmt.Fprintf(w, "%s: held back for %s\n", h.Stage, h.For)
	}
	return nil
}

func (r report) err() error {
	if r.Whole == r.Records && r.Torn+r.Twice == 0 {
		return nil
	}
	return fmt.Errorf("%d records are torn, %d missing, and %d there twice", r.Torn, r.Missing, r.Twice)
}

// parseFlags turns arguments into a config, or returns everything that is wrong with them.
func parseFlags(args []string, help io.Writer) (c config, err error) {
	f := flag.NewFlagSet("journal", flag.ContinueOnError)
	f.IntVar(&c.n, "n", 200, "`number` of orders, and of payments")
	f.Float64Var(&c.crash, "crash", 0.1, "`probability` of a crash after each line that is written")
	f.BoolVar(&c.without, "without", false, "leave the synchronizer out: records are torn, as intended")
	f.BoolVar(&c.json, "json", false, "report as JSON")
	if err := show.Parse(f, args, "journal has two stages write to one file, one at a time, by a synchronizer.", help); err != nil {
		return config{}, err
	}
	return c, errors.Join(
		show.NoArguments(f),
		show.Fault(c.n < 1, "-n %d: at least 1", c.n),
		show.Fault(!(c.crash >= 0 && c.crash <= 0.5), "-crash %v: from 0 to 0.5", c.crash), // NaN too
	)
}
