// Mapped is a pipeline of three groups of stages that run in one process, or in
// as many processes on as many machines as wanted.
//
//	go run ./examples/mapped                                                  # all in one process; no server
//
//	go run ./examples/mapped -nats nats://127.0.0.1:4222 -groups index        # ends when all documents are indexed
//	go run ./examples/mapped -nats nats://127.0.0.1:4222 -groups ocr          # as often as wanted; they join and leave
//	go run ./examples/mapped -nats nats://127.0.0.1:4222 -groups load         # ends when all documents are sent
//	go run ./examples/mapped -nats nats://127.0.0.1:4222 -status              # meanwhile: a table of the processes and the waiting messages
//
// The process of group load makes documents, the processes of group ocr read
// them, which takes long, and the process of group index counts their words.
// Which process runs which group is said by pipeline.Assign, and which process
// this one is by pipeline.RunsHere: the stages do not know.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/golda-dev/golda/adapter/dashboard"
	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/adapter/nats/fleet"
	"github.com/golda-dev/golda/examples/internal/processes"
	"github.com/golda-dev/golda/examples/internal/show"
	"github.com/golda-dev/golda/pipeline"
)

func main() { show.Main(run) }

// config holds the values of the flags.
type config struct {
	documents, workers int
	each               time.Duration
	groups, nats, out  string
	status             bool
}

// run runs the program and returns its exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c, err := parseFlags(args, stdout)
	if err != nil {
		return show.Usage(stderr, "mapped", err)
	}
	if c.status {
		return show.Status(stderr, "mapped", processes.Show(ctx, stdout, c.nats, pipelineName))
	}
	return show.Status(stderr, "mapped", c.work(ctx, stdout))
}

func parseFlags(args []string, help io.Writer) (c config, err error) {
	flags := flag.NewFlagSet("mapped", flag.ContinueOnError)
	flags.IntVar(&c.documents, "n", 200, "`number` of documents")
	flags.IntVar(&c.workers, "workers", 4, "`number` of documents that a process reads at once")
	flags.DurationVar(&c.each, "each", 10*time.Millisecond, "`duration` of reading a document")
	flags.StringVar(&c.groups, "groups", "",
		"`names` of the groups that this process runs, with commas between: load, ocr, index; without it, all")
	flags.StringVar(&c.nats, "nats", "", "`URL` of the NATS server with JetStream that the processes share")
	flags.BoolVar(&c.status, "status", false, "print a table of the processes that run on the server of -nats, and do nothing else")
	flags.StringVar(&c.out, "out", "", "`file` that gets a line for each document; without it, there is only the sum")
	const about = "mapped is a pipeline whose groups of stages run in one process or in several."
	if err := show.Parse(flags, args, about, help); err != nil {
		return c, err
	}
	return c, errors.Join(
		show.NoArguments(flags),
		show.Fault(c.documents < 1, "-n %d: at least 1", c.documents),
		show.Fault(c.workers < 1, "-workers %d: at least 1", c.workers),
		show.Fault(c.each < 0, "-each %v: at least 0", c.each),
		show.Fault(!c.status && (c.groups == "") != (c.nats == ""), "-groups and -nats: both or none"),
		show.Fault(c.status && (c.nats == "" || c.groups != ""), "-status: with -nats, and without -groups"),
	)
}

// pipelineName is the name of the pipeline in all processes.
const pipelineName = "mapped"

// work runs the stages of this process, until all documents are indexed, or
// have been sent, or ctx ends.
func (c config) work(ctx context.Context, stdout io.Writer) (err error) {
	index, err := newIndex(c.out, c.documents)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, index.close()) }()
	if c.groups == "" {
		p, err := pipeline.New(pipelineName, c.stages(index)...)
		if err != nil {
			return err
		}
		return c.execute(ctx, p, index, stdout)
	}
	conn, err := nats.Connect(ctx, c.nats)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	place := pipeline.RunsHere(nats.NewCarrier(conn, pipelineName, carrierOptions), strings.Split(c.groups, ",")...)
	p, err := pipeline.New(pipelineName, append(c.stages(index), place)...)
	if err != nil {
		return err
	}
	page, err := dashboard.New(p, dashboard.Options{})
	if err != nil {
		return err
	}
	f, err := fleet.Join(ctx, conn, p, fleet.Options{Name: c.groups, Dashboard: page}) // for -status, and golda ui -nats
	if err != nil {
		return err
	}
	defer func() { _ = f.Leave(context.WithoutCancel(ctx)) }()
	return c.execute(ctx, p, index, stdout)
}

// execute runs the pipeline, and reports the work done, also of a run that has
// failed.
func (c config) execute(ctx context.Context, p *pipeline.Pipeline, index *index, stdout io.Writer) error {
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-index.full:
			cancel()
		case <-running.Done():
		}
	}()
	err := p.Run(running)
	s := p.Snapshot()
	_, failed := io.WriteString(stdout, report(s, index))
	return errors.Join(err, failed, c.interrupted(ctx, s))
}

// interrupted returns an error if the end of ctx ended the process before its
// work was done.
func (c config) interrupted(ctx context.Context, s pipeline.Snapshot) error {
	for _, st := range s.Stages {
		here, done := st.Process == "", st.Counts.OK+st.Counts.Forwarded
		if ctx.Err() != nil && here && (st.Name == "load" || st.Name == "enter") && done < uint64(c.documents) {
			return fmt.Errorf("interrupted: %s has handled %d of %d documents", st.Name, done, c.documents)
		}
	}
	return nil
}

// report lists the work of each stage.
func report(s pipeline.Snapshot, index *index) string {
	var b strings.Builder
	for _, st := range s.Stages {
		if st.Process != "" {
			fmt.Fprintf(&b, "%s: sent %d to process %s\n", st.Name, st.Counts.OK, st.Process)
		} else {
			fmt.Fprintf(&b, "%s: handled %d\n", st.Name, st.Counts.OK+st.Counts.Forwarded)
		}
	}
	documents, words := index.sum()
	if documents > 0 {
		fmt.Fprintf(&b, "index: %d documents of %d words\n", documents, words)
	}
	fmt.Fprintf(&b, "law: %s\n", s.Law())
	return b.String()
}
