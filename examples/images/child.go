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

// A comparison runs each policy in a child: this program once more, with a heap
// of its own. A child gets its orders from its standard input and not from
// signals, because Ctrl-C at a terminal reaches both processes, and only the
// parent knows whether it is the second one. One byte is the first Ctrl-C; the
// end of the input, which is also the end of the parent, is the second.

const childEnv = "GOLDA_IMAGES_CHILD"

func isChild() bool { return os.Getenv(childEnv) != "" }

// child runs the program as a child.
func child(ctx context.Context, cancel context.CancelFunc, box *outbox) int {
	signal.Ignore(os.Interrupt, syscall.SIGTERM)
	go followOrders(os.Stdin, cancel, func() {
		box.abandon()
		os.Exit(show.StatusInterrupted)
	})
	r := &runner{box: box, stdout: os.Stdout, stderr: os.Stderr, compared: true, limit: limitMemory}
	return r.main(ctx, os.Args[1:])
}

// followOrders follows the orders of a parent. It runs as long as the child.
func followOrders(orders io.Reader, finish, abandon func()) {
	order := make([]byte, 1)
	if n, _ := orders.Read(order); n == 1 {
		finish()
		_, _ = orders.Read(order) // any result is the second order
	}
	abandon()
}

// row is the result of one policy in a comparison.
type row struct {
	policy string
	status int
	died   error   // why there is no report
	report *report // nil if the child printed none
}

// spawn runs one policy in a child. When ctx ends, the child finishes the
// images in progress.
func (r *runner) spawn(ctx context.Context, pol controller.Policy) row {
	done := row{policy: pol.Name(), status: show.StatusFailed}
	self, err := os.Executable()
	if err != nil {
		done.died = err
		return done
	}
	var stdout bytes.Buffer
	cmd := exec.CommandContext(ctx, self, r.args(pol)...) //nolint:gosec // it is this program
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

// readReport finds the report in the output of a child. If there is none, the
// error is the child's end.
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

// args returns the arguments of a child.
func (r *runner) args(pol controller.Policy) []string {
	args := []string{
		"-json", "-policy", pol.Name(), "-out", r.outOf(pol),
		"-size", string(r.size), "-seed", strconv.FormatUint(r.seed, 10),
		"-workers", strconv.Itoa(r.workers), "-pool", strconv.Itoa(r.pool), "-crash", fmt.Sprint(r.crash), "-metrics", r.metrics, "-dashboard", r.dashboard,
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
