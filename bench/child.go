package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/pprof"
	"strings"
	"time"
)

// Each measurement has a process of its own, so that none inherits the heap,
// the goroutines or the timers of another, and the death of one affects no
// other.

// childWord is the first argument of such a process; the second is its order.
const childWord = "measure-one"

// childTime is how long a measurement may take.
const childTime = 3 * time.Minute

// errMissed means that a generator did not keep its schedule: the machine was
// too busy.
var errMissed = errors.New("the generator missed its schedule")

// tries is how often a measurement is made if its generator misses its
// schedule.
const tries = 5

// respite is the pause before another try, in which a busy machine may become
// less busy.
const respite = time.Second

// report is a child's output.
type report struct {
	Sample sample `json:"sample"`
	Error  string `json:"error,omitempty"`
	Missed bool   `json:"missed,omitempty"` // the error is errMissed
}

// child runs the program as a child: it makes one measurement and prints it.
func child(args []string, stdout io.Writer) int {
	var o order
	if err := json.Unmarshal([]byte(strings.Join(args, " ")), &o); err != nil {
		return complain(os.Stderr, statusUsage, fmt.Errorf("%s: %w", childWord, err))
	}
	s, err := profiled(o)
	r := report{Sample: s, Missed: errors.Is(err, errMissed)}
	if err != nil {
		r.Error = err.Error()
	}
	if err := json.NewEncoder(stdout).Encode(r); err != nil {
		return complain(os.Stderr, statusFailed, err)
	}
	return statusOK
}

// profiled makes one measurement, with a CPU profile if one is wanted.
func profiled(o order) (s sample, err error) {
	if o.Profile == "" {
		return measure(o)
	}
	file, err := os.Create(o.Profile)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := pprof.StartCPUProfile(file); err != nil {
		return s, err
	}
	defer pprof.StopCPUProfile()
	return measure(o)
}

// measure makes one measurement in this process.
func measure(o order) (sample, error) {
	w, known := workNamed(o.Work)
	impl, there := implementationNamed(o.Impl)
	if !known || !there {
		return sample{}, fmt.Errorf("no work %q or no implementation %q", o.Work, o.Impl)
	}
	return w.run(impl, o)
}

// send makes a measurement in a child, and repeats it if its generator missed
// its schedule.
func send(ctx context.Context, o order) (s sample, err error) {
	for try := range tries {
		if try > 0 {
			time.Sleep(respite)
		}
		if s, err = sendOnce(ctx, o); !errors.Is(err, errMissed) {
			break
		}
	}
	if err != nil {
		return s, fmt.Errorf("%s of %s: %w", o.Work, o.Impl, err)
	}
	return s, nil
}

func sendOnce(ctx context.Context, o order) (sample, error) {
	program, err := os.Executable()
	if err != nil {
		return sample{}, err
	}
	text, err := json.Marshal(o)
	if err != nil {
		return sample{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, childTime)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, program, childWord, string(text)) //nolint:gosec // it is this program
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return deathResult(ctx, o, err, stderr.String())
	}
	return read(stdout.Bytes())
}

// read parses a child's output.
func read(text []byte) (sample, error) {
	var r report
	if err := json.Unmarshal(text, &r); err != nil {
		return sample{}, fmt.Errorf("the measuring process printed %q: %w", text, err)
	}
	switch {
	case r.Missed:
		return r.Sample, fmt.Errorf("%w%s", errMissed, strings.TrimPrefix(r.Error, errMissed.Error()))
	case r.Error != "":
		return r.Sample, errors.New(r.Error)
	default:
		return r.Sample, nil
	}
}

// deathResult returns the result for a child that has died. In W6 it is a
// figure: the answers are lost with the process.
func deathResult(ctx context.Context, o order, err error, stderr string) (sample, error) {
	last := panicLine(stderr)
	if o.Work == "W6" && ctx.Err() == nil && last != "" {
		return sample{Commands: o.commands(crashRequests), Died: last}, nil
	}
	return sample{}, fmt.Errorf("%w: %s", cmp.Or(ctx.Err(), err), last)
}

// panicLine returns the line in which a Go program reports its panic.
func panicLine(stderr string) string {
	for line := range strings.Lines(stderr) {
		if strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:") {
			return strings.TrimSpace(line)
		}
	}
	return ""
}
