package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/golda-dev/golda/examples/internal/show"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
)

// serve runs the server until ctx ends; then it answers the requests that it
// has, and reports.
func (c config) serve(ctx context.Context, stdout, stderr io.Writer) error {
	l, err := show.Listen(ctx, "-addr", c.addr)
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }() // the source has closed it, unless the pipeline was refused
	p := &pages{config: c}
	line, err := p.plan(accepted(l))
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(stderr, "pages: serving at http://%s with policy %s; stop with Ctrl-C\n", l.Addr(), c.policy.Name())
	err = line.Run(ctx)
	return errors.Join(err, p.report(stdout, line.Snapshot()))
}

// accepted is the source of connections. It closes the listener when it ends.
func accepted(l net.Listener) source.Source[net.Conn] {
	return func(ctx context.Context, submit func(net.Conn) error) error {
		defer context.AfterFunc(ctx, func() { _ = l.Close() })() // Accept returns then
		for {
			c, err := l.Accept()
			if err != nil {
				return err
			}
			if err := submit(c); err != nil {
				_ = c.Close() // it was not accepted by the pipeline
				return err
			}
		}
	}
}

// report is what the program prints in the end.
type report struct {
	Policy string        `json:"policy"`
	Sent   uint64        `json:"sent"`
	Bad    uint64        `json:"bad"`
	Failed uint64        `json:"failed"`
	Stages []stageReport `json:"stages"`
}

// stageReport has the counts of one stage.
type stageReport struct {
	Name    string `json:"name"`
	Handled uint64 `json:"handled"`
	Workers int    `json:"workers"` // the most there ever were
}

func (p *pages) report(w io.Writer, s pipeline.Snapshot) error {
	r := report{Policy: p.policy.Name(), Sent: p.sent.Load(), Bad: p.bad.Load(), Failed: p.failed.Load()}
	for _, st := range s.Stages {
		r.Stages = append(r.Stages, stageReport{st.Name, st.Counts.Handled(), st.Workers.Most})
	}
	if p.json {
		return json.NewEncoder(w).Encode(r)
	}
	_, _ = fmt.Fprintf(w, "policy %s: %d pages sent, %d requests that were none, %d failed\n%s\n", r.Policy, r.Sent, r.Bad, r.Failed, show.Law(s))
	for _, st := range r.Stages {
		_, _ = fmt.Fprintf(w, "%-8s %d handled, at most %d workers\n", st.Name, st.Handled, st.Workers)
	}
	return nil
}
