// Loganalyser reads the access log of a web server, and prints which hosts made
// the most requests, with their statuses and bytes.
//
//	go run ./examples/loganalyser                  # a generated log of 300,000 lines
//	go run ./examples/loganalyser access.log
//	zcat access.log.gz | go run ./examples/loganalyser -
//	go run ./examples/loganalyser -crash 0.01      # the parser panics in 1 % of its calls
//
// Lines that cannot be parsed are counted, and the first of them listed. The
// exit status is 1 if a line that was read is not counted once, whatever the
// parser does.
package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/golda-dev/golda/examples/internal/show"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// config holds the values of the flags.
type config struct {
	file          string
	n, hosts, top int
	seed          uint64
	bad, crash    float64
	quiet         bool
}

// run runs the program and returns its exit status.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	c, err := parseFlags(args, stdout)
	if err != nil {
		return show.Usage(stderr, "loganalyser", err)
	}
	return show.Status(stderr, "loganalyser", c.work(ctx, stdin, stdout, stderr))
}

// work analyses the log and writes the report.
func (c config) work(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) error {
	log := &input{}
	switch c.file {
	case "":
		log.from = newGenerator(c.n, c.hosts, c.bad, c.seed)
	case "-":
		log.from = stdin
	default:
		f, err := os.Open(c.file)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		log.from = f
	}
	if c.quiet {
		stderr = nil
	}
	sum, err := analyse(ctx, log, c.crash, stderr)
	if err != nil {
		return err
	}
	return sum.write(stdout, c.top, log.read.Load())
}

func parseFlags(args []string, help io.Writer) (c config, err error) {
	flags := flag.NewFlagSet("loganalyser", flag.ContinueOnError)
	flags.IntVar(&c.n, "n", 300_000, "`number` of lines to generate, if no file is named")
	flags.IntVar(&c.hosts, "hosts", 10_000, "`number` of hosts in a generated log")
	flags.Float64Var(&c.bad, "bad", 0.001, "`part` of the lines of a generated log that cannot be parsed")
	flags.Uint64Var(&c.seed, "seed", 1, "`number` that generates the log")
	flags.IntVar(&c.top, "top", 10, "`number` of hosts to list")
	flags.Float64Var(&c.crash, "crash", 0, "`part` of the calls of the parser that panic")
	flags.BoolVar(&c.quiet, "quiet", false, "no line of progress every second")
	const about = "loganalyser sums up the access log of a web server by host: a file, - for the standard input, or a generated log."
	if err := show.Parse(flags, args, about, help); err != nil {
		return c, err
	}
	c.file = flags.Arg(0)
	return c, errors.Join(
		show.Fault(flags.NArg() > 1, "%d files; one is read, or - for the standard input", flags.NArg()),
		show.Fault(c.n < 0, "-n %d: at least 0", c.n),
		show.Fault(c.hosts < 1, "-hosts %d: at least 1", c.hosts),
		show.Fault(c.top < 0, "-top %d: at least 0", c.top),
		show.Fault(!(c.bad >= 0 && c.bad <= 1), "-bad %v: from 0 to 1", c.bad),
		show.Fault(!(c.crash >= 0 && c.crash < 1), "-crash %v: at least 0 and below 1", c.crash),
	)
}
