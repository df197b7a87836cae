package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	_ "modernc.org/sqlite" // the driver "sqlite"
)

// most is how many rows are read at once.
const most = 100

// The IDs of the outbox are never those of rows that were removed
// (AUTOINCREMENT), and one writer at a time has them commit in their order.
const schema = `
CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, item TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS outbox (id INTEGER PRIMARY KEY AUTOINCREMENT, message TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS relayed (id INTEGER PRIMARY KEY CHECK (id = 1), position INTEGER NOT NULL);
INSERT INTO relayed VALUES (1, 0) ON CONFLICT DO NOTHING;`

// open opens the database of a shop.
func open(file string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(10000)&_txlock=immediate")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1) // SQLite has one writer
	if _, err := db.Exec(schema); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// errSoldOut means that an order was not placed.
var errSoldOut = errors.New("sold out")

// place writes an order and its message in one transaction: both are there, or
// neither is.
func place(ctx context.Context, db *sql.DB, order int64, item string) (err error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, tx.Rollback())
		}
	}()
	if _, err := tx.ExecContext(ctx, "INSERT INTO outbox (message) VALUES (?)", fmt.Sprintf("order %d: %s", order, item)); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO orders VALUES (?, ?)", order, item); err != nil {
		return err
	}
	if item == "unicorn" {
		return errSoldOut
	}
	return tx.Commit()
}

// lastOrder returns the number of the last order that was placed.
func lastOrder(ctx context.Context, db *sql.DB) (last int64, err error) {
	err = db.QueryRowContext(ctx, "SELECT coalesce(max(id), 0) FROM orders").Scan(&last)
	return last, err
}

// rowsAfter returns rows of the outbox behind a position.
func rowsAfter(ctx context.Context, db *sql.DB, position int64) (all []message, err error) {
	rows, err := db.QueryContext(ctx, "SELECT id, message FROM outbox WHERE id > ? ORDER BY id LIMIT ?", position, most)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var m message
		if err := rows.Scan(&m.ID, &m.Text); err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, rows.Err()
}

// position returns the position of which all messages were delivered.
func position(ctx context.Context, db *sql.DB) (at int64, err error) {
	err = db.QueryRowContext(ctx, "SELECT position FROM relayed").Scan(&at)
	return at, err
}

// forget saves the position, and removes the rows up to it, in one transaction.
func forget(ctx context.Context, db *sql.DB, position int64) (err error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, tx.Rollback())
		}
	}()
	if _, err := tx.ExecContext(ctx, "UPDATE relayed SET position = ?", position); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "DELETE FROM outbox WHERE id <= ?", position); err != nil {
		return err
	}
	return tx.Commit()
}
