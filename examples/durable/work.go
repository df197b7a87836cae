package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/golda-dev/golda/adapter/dashboard"
	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/adapter/nats/fleet"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/window"
)

// job is shared by parent and child.
type job struct {
	Dir     string // of the store and the file
	NATS    string // URL; empty for a server inside the process
	Name    string // of the inlet and of the ledger
	Workers int
	Rotten  int
	Each    time.Duration
}

// open opens the connection, the inlet and the ledger.
func (j job) open(ctx context.Context) (conn *nats.Conn, numbers *nats.Inlet[int], ledger nats.Outcomes, err error) {
	if j.NATS == "" {
		conn, err = nats.Embed(filepath.Join(j.Dir, "store"), nats.Store{})
	} else {
		conn, err = nats.Connect(ctx, j.NATS)
	}
	if err != nil {
		return nil, nil, nil, err
	}
	numbers, err = nats.NewInlet(ctx, conn, j.Name, nats.Options[int]{
		AckWait: time.Second, MaxInFlight: 256, UntilEmpty: true,
		Retry: stage.RetryPolicy{
			Attempts: 10_000, // the process is killed more often than others are
			If:       func(err error) bool { return !errors.Is(err, errRotten) },
		},
	})
	if err == nil {
		ledger, err = conn.Outcomes(ctx, j.Name, 0)
	}
	if err != nil {
		return nil, nil, nil, errors.Join(err, conn.Close(ctx))
	}
	return conn, numbers, ledger, nil
}

// pipelineName is the name of the pipeline in all processes.
const pipelineName = "durable"

func (j job) file() string { return filepath.Join(j.Dir, "effects") }

// errRotten is the error of a command that fails for good.
var errRotten = errors.New("rotten")

// work runs a pipeline until the inlet is empty:
//
//	inlet ──▶ check ──▶ file
//	               └──▶ batches ──▶ ledger
func (j job) work(ctx context.Context, ready func()) (err error) {
	conn, numbers, outcomes, err := j.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	file, err := os.OpenFile(j.file(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()

	check := stage.Map("check", func(_ context.Context, n int) (int, error) {
		if j.Rotten > 0 && n%j.Rotten == 0 {
			return 0, fmt.Errorf("command %d: %w", n, errRotten)
		}
		time.Sleep(j.Each)
		return n, nil
	}, stage.Workers(j.Workers, j.Workers))
	appended := stage.Sink("file", func(_ context.Context, n int) error {
		_, err := file.WriteString(strconv.Itoa(n) + "\n")
		return err
	})
	batches := window.All("batches", window.Bounds[int]{Count: 32, Time: 50 * time.Millisecond})
	kept := stage.Sink("ledger", func(ctx context.Context, w window.Window[struct{}, []int]) error {
		// if one fails all are delivered again, and numbers that are in the
		// ledger keep their outcome
		for _, n := range w.Value {
			if _, err := nats.Once(ctx, outcomes, strconv.Itoa(n), func(context.Context) (int, error) { return 2 * n, nil }); err != nil {
				return err
			}
		}
		return nil
	})
	p, err := pipeline.New(pipelineName, check, check.To(appended, batches), batches.To(kept), pipeline.Feed("numbers", check, numbers.Feed),
		pipeline.Logger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return err
	}
	page, err := dashboard.New(p, dashboard.Options{})
	if err != nil {
		return err
	}
	f, err := fleet.Join(ctx, conn, p, fleet.Options{Name: "worker", Dashboard: page}) // for -status, and golda ui -nats
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Leave(ctx)) }()
	go func() {
		select {
		case <-p.Started():
			ready()
		case <-p.Done():
		}
	}()
	return p.Run(ctx)
}

// workEnv has the job of a child process.
const workEnv = "GOLDA_DURABLE_JOB"

// child is the main function of a child process. It writes a line when its
// pipeline has started.
func child(work string) (status int) {
	var j job
	err := json.Unmarshal([]byte(work), &j)
	if err == nil {
		err = j.work(context.Background(), func() { fmt.Println("ready") })
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
