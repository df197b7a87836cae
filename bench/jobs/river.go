package main

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riversqlite"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"
	_ "modernc.org/sqlite" // the driver "sqlite"
)

var riverQueue = system{
	name:    "river",
	what:    "River with SQLite (modernc.org/sqlite) in the process that works",
	durable: [2]string{"WAL with synchronous=NORMAL: synced at checkpoints", "WAL with synchronous=FULL: each transaction is synced"},
	urgent:  "priority 1, the others have 4",
	gone:    "RescueStuckJobsAfter, set to 2 s, by a leader that looks each 30 s",
	open:    openRiver,
}

// Kind is for River.
func (job) Kind() string { return "job" }

// riverTable is a queue in a file of SQLite.
type riverTable struct {
	order
	db   *sql.DB
	adds *river.Client[*sql.Tx]
}

func openRiver(ctx context.Context, o order) (_ queue, err error) {
	synchronous := "NORMAL"
	if o.Sync {
		synchronous = "FULL"
	}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(o.Dir, "river.db")+
		"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(10000)&_txlock=immediate&_pragma=synchronous("+synchronous+")")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1) // as its documentation has it: SQLite has one writer
	defer func() {
		if err != nil {
			err = errors.Join(err, db.Close())
		}
	}()
	migrator, err := rivermigrate.New(riversqlite.New(db), &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	if _, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return nil, err
	}
	adds, err := river.NewClient(riversqlite.New(db), &river.Config{Logger: errorsOnly()})
	if err != nil {
		return nil, err
	}
	return &riverTable{order: o, db: db, adds: adds}, nil
}

// errorsOnly is the log of a system: its errors, to the standard error.
func errorsOnly() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
}

func (r *riverTable) add(ctx context.Context, j job) error {
	priority := 4
	if j.Urgent {
		priority = 1
	}
	_, err := r.adds.Insert(ctx, j, &river.InsertOpts{Priority: priority})
	return err
}

func (r *riverTable) work(ctx context.Context, handle func(job) error) error {
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(_ context.Context, j *river.Job[job]) error { return handle(j.Args) }))
	client, err := river.NewClient(riversqlite.New(r.db), &river.Config{
		Queues:        map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: r.AtOnce}},
		FetchCooldown: river.FetchCooldownMin, FetchPollInterval: 10 * time.Millisecond, // SQLite has no notifications
		JobTimeout: goneAfter, RescueStuckJobsAfter: goneAfter, MaxAttempts: attempts, RetryPolicy: soon{},
		Workers: workers, Logger: errorsOnly(),
	})
	if err != nil {
		return err
	}
	if err := client.Start(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	<-ctx.Done()
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return client.Stop(stop)
}

// soon tries a job again after retryAfter.
type soon struct{}

func (soon) NextRetry(*rivertype.JobRow) time.Time { return time.Now().Add(retryAfter) }

func (r *riverTable) left(ctx context.Context) (n int, err error) {
	err = r.db.QueryRowContext(ctx, "SELECT count(*) FROM river_job WHERE state <> 'completed'").Scan(&n)
	return n, err
}

func (r *riverTable) close(context.Context) error { return r.db.Close() }
