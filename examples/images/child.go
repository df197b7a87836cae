package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/examples/internal/show"
)

// A comparison has each policy run in a child: this program once more, with a heap of
// its own. A child takes its orders from its standard input and not from signals,
// because Ctrl-C at a terminal reaches both, and whether the second one is meant as a
// second one only the parent can tell. One byte is the first Ctrl-C; the end of the
// input, which is also the end of the parent, is the second.

const childEnv = "GOLDA_IMAGES_CHILD"

func isChild() bool { return os.Getenv(childEnv) != "" }

// child is the whole program of a child.
func child(ctx context.Context, cancel context.CancelFunc, box *outbox) int {
	signal.Ignore(os.Interrupt, syscall.SIGTERM)
	go obey(os.Stdin, cancel, func() {
		box.abandon()
		os.Exit(show.StatusInterrupted)
	})
	r := &runner{box: box, stdout: os.Stdout, stderr: os.Stderr, compared: true, limit: limitMemory}
	return r.main(ctx, os.Args[1:])
}

// obey carries out the orders of a parent. It lives as long as the child.
func obey(orders io.Reader, finish, abandon func()) {
	order := make([]byte, 1)
	if n, _ := orders.Read(order); n == 1 {
		finish()
		_, _ = orders.Read(order) // whatever comes, it is the second
	}
	abandon()
}

// row is what a comparison knows of one policy.
type row struct {
	policy string
	status int
	died   error   // why there is no report
	report *report // nil if the child did not come to it
}

// spawn runs one policy in a child, and has it finish what it has begun when ctx ends.
func (r *runner) spawn(ctx context.Context, law controller.Policy) row {
	done := row{policy: law.Name(), status: show.StatusFailed}
	self, err := os.Executable()
	if err != nil {
		done.died = err
		return done
	}
	var stdout bytes.Buffer
	cmd := exec.CommandContext(ctx, self, r.args(law)...) //nolint:gosec // it is this program
	cmd.Env = append(os.Environ(), childEnv+"=1")
	cmd.Stdout, cmd.Stderr = &stdout, r.stderr
	orders, err := cmd.StdinPipe()
	if err != nil {
		done.died = err
		return done
	}
	cmd.Cancel = func() error {
		_, err := orders.Write([]byte("."))
		return err
	}
	err = cmd.Run()
	if cmd.ProcessState != nil && cmd.ProcessState.ExitCode() >= 0 {
		done.status = cmd.ProcessState.ExitCode()
	}
	done.report, done.died = readReport(stdout.Bytes(), err)
	return done
}

// readReport finds the report in what a child wrote. If there is none, the child's end is the
// reason.
func readReport(stdout []byte, end error) (*report, error) {
	var got report
	if err := json.Unmarshal(stdout, &got); err != nil {
		if end != nil {
			return nil, end
		}
		return nil, errors.Join(errors.New("no report"), err)
	}
	return &got, nil
}

// args are the arguments of a child.
func (r *runner) args(law controller.Policy) []string {
	args := []string{
		"-json", "-policy", law.Name(), "-out", r.outOf(law),
		"-size", string(r.size), "-seed", strconv.FormatUint(r.seed, 10),
		"-workers", strconv.Itoa(r.workers), "-crash", fmt.Sprint(r.crash), "-metrics", r.metrics,
		"-max-pixels", strconv.Itoa(r.maxPixels),
	}
	if r.n > 0 {
		args = append(args, "-n", strconv.Itoa(r.n))
	}
	if r.in != "" {
		return append(args, "-in", r.in)
	}
	return append(args, "-captchas", r.captchas)
}
