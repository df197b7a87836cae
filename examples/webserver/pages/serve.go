package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/golda-dev/golda/examples/internal/show"
	"github.com/golda-dev/golda/examples/webserver/pages/chapter5"
	"github.com/golda-dev/golda/pipeline"
)

// serve runs the server until ctx ends; then it answers the requests that it
// has, and reports.
func (c config) serve(ctx context.Context, stdout, stderr io.Writer) error {
	l, err := show.Listen(ctx, "-addr", c.addr)
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }() // the source has closed it, unless the pipeline was refused
	pages := chapter5.New(c.Config)
	line, err := pages.Pipeline(chapter5.Accepted(l), pipeline.Control(c.policy))
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(stderr, "pages: serving at http://%s with policy %s; stop with Ctrl-C\n", l.Addr(), c.policy.Name())
	err = line.Run(ctx)
	return errors.Join(err, c.report(stdout, pages, line.Snapshot()))
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

func (c config) report(w io.Writer, pages *chapter5.Server, s pipeline.Snapshot) error {
	r := report{Policy: c.policy.Name()}
	r.Sent, r.Bad, r.Failed = pages.Counts()
	for _, st := range s.Stages {
		r.Stages = append(r.Stages, stageReport{st.Name, st.Counts.Handled(), st.Workers.Most})
	}
	if c.json {
		return json.NewEncoder(w).Encode(r)
	}
	_, _ = fmt.Fprintf(w, "policy %s: %d pages sent, %d requests that were none, %d failed\n%s\n", r.Policy, r.Sent, r.Bad, r.Failed, show.Law(s))
	for _, st := range r.Stages {
		_, _ = fmt.Fprintf(w, "%-8s %d handled, at most %d workers\n", st.Name, st.Handled, st.Workers)
	}
	return nil
}
