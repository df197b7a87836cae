// Outbox writes each order and the message about it in one transaction, and a
// pipeline delivers the messages: each at least once, and none of an order that
// was not placed, although the process may be killed at any moment.
//
//	go run ./examples/outbox -dir /tmp/shop -orders 1000   # kill -9 it, and run it again
//
// The receiver is a file with a line for each delivery. A message that was
// delivered twice has the same ID twice: the receiver removes duplicates by it.
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/golda-dev/golda/pipeline"
)

func main() {
	dir := flag.String("dir", ".", "the `directory` of the shop")
	orders := flag.Int64("orders", 1000, "how many `orders` are placed in all")
	flag.Parse()
	if err := run(context.Background(), *dir, *orders); err != nil {
		fmt.Fprintln(os.Stderr, "outbox:", err)
		os.Exit(1)
	}
}

// run places orders, from the first that was not placed, and returns when all
// their messages were delivered.
func run(ctx context.Context, dir string, orders int64) (err error) {
	db, err := open(filepath.Join(dir, "shop.db"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	sent, err := os.OpenFile(filepath.Join(dir, "sent"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sent.Close()) }()
	send := func(_ context.Context, m message) error {
		_, err := fmt.Fprintf(sent, "%d %s\n", m.ID, m.Text) // a broker or a mail server, in a shop
		return err
	}

	wake := make(chan struct{}, 1)
	p, err := relay(ctx, db, wake, send, pipeline.Logger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return err
	}
	if err := p.Start(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Stop(ctx)) }()
	last, err := lastOrder(ctx, db)
	if err != nil {
		return err
	}
	for order := last + 1; order <= orders; order++ {
		if err := place(ctx, db, order, "unicorn"); !errors.Is(err, errSoldOut) {
			return err
		}
		if err := place(ctx, db, order, "pencil"); err != nil {
			return err
		}
		select {
		case wake <- struct{}{}:
		default: // the relay will look anyway
		}
	}
	return untilDelivered(ctx, db)
}

// untilDelivered returns when the outbox is empty.
func untilDelivered(ctx context.Context, db *sql.DB) error {
	for {
		var left int
		if err := db.QueryRowContext(ctx, "SELECT count(*) FROM outbox").Scan(&left); err != nil || left == 0 {
			return err
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
