package main

import (
	"fmt"
	"time"

	"github.com/golda-dev/golda/adapter/dashboard/api"
)

type verdictCommand struct {
	From string        `arg:"" help:"URL of a dashboard, or file of a recording."`
	Over time.Duration `default:"10s" help:"The interval to judge; of a recording it is 10s."`
}

const (
	longBatch  = time.Second // a worker that has been at its batch for so long is named
	mostCauses = 3           // of failures that are named
)

// Run prints the verdict, and the other signs of an outage: workers that do not
// come back, and failures.
func (c *verdictCommand) Run(s *session) error {
	v, work, failures, err := c.read(s)
	if err != nil {
		return err
	}
	fmt.Fprintln(s.out, plain(v.Now.Text))
	if v.Before != nil {
		fmt.Fprintln(s.out, "a minute ago:", plain(v.Before.Text))
	}
	for _, st := range work.Stages {
		if len(st.Busy) > 0 && st.Busy[0].Ns >= int64(longBatch) { // the longest is the first
			fmt.Fprintf(s.out, "stage %q: %d workers are at their batches, one of them for %v\n", plain(st.Name), len(st.Busy), short(st.Busy[0].Ns))
		}
	}
	for _, g := range failures.Groups[:min(len(failures.Groups), mostCauses)] { // the latest is the first
		fmt.Fprintf(s.out, "stage %q failed %d times, last at %s: %s\n", plain(g.Stage), g.Count, g.Last.Local().Format(time.TimeOnly), plain(g.Error))
	}
	return nil
}

func (c *verdictCommand) read(s *session) (v api.Verdicts, work api.Work, failures api.Failures, err error) {
	if !isURL(c.From) {
		r, err := readRecording(c.From)
		return r.Verdicts, r.Work, r.Failures, err
	}
	client := s.client(c.From)
	for path, into := range map[string]any{"/verdict?over=" + c.Over.String(): &v, "/workers": &work, "/failures": &failures} {
		if err = client.Get(s.ctx, path, into); err != nil {
			return v, work, failures, err
		}
	}
	return v, work, failures, nil
}
