// Package processes shows the processes that run the pipeline of an example.
package processes

import (
	"context"
	"errors"
	"io"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/adapter/nats/fleet"
)

// Show writes a table of all processes that run a pipeline on a server, and of
// the messages that wait for them.
func Show(ctx context.Context, w io.Writer, url, pipeline string) (err error) {
	conn, err := nats.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	f, err := fleet.Observe(ctx, conn, pipeline, fleet.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Leave(context.WithoutCancel(ctx))) }()
	s, err := f.Snapshot(ctx)
	if len(s.Processes) > 0 || err == nil { // print an incomplete snapshot too
		_, failed := io.WriteString(w, s.String())
		err = errors.Join(err, failed)
	}
	return err
}
