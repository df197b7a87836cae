package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/golda-dev/golda/examples/internal/show"
)

// compare runs the policies one after another on the same images, and prints
// the results side by side. When ctx ends, the current run ends, and no other
// is started.
func (r *runner) compare(ctx context.Context) int {
	if err := r.draw(ctx); err != nil && ctx.Err() == nil {
		return show.Faults(r.stderr, "images", show.StatusFailed, err)
	}
	var all comparison
	var unheard error
	for i, pol := range r.policies {
		if ctx.Err() != nil {
			break
		}
		_, _ = fmt.Fprintf(r.stderr, "policy %s, %d of %d\n", pol.Name(), i+1, len(r.policies)) // for the progress that follows
		done := r.spawn(ctx, pol)
		all = append(all, done)
		if r.json && done.report != nil {
			unheard = errors.Join(unheard, json.NewEncoder(r.stdout).Encode(done.report))
		}
	}
	if !r.json {
		unheard = all.print(r.stdout)
	}
	if ctx.Err() != nil {
		return show.Faults(r.stderr, "images", show.StatusInterrupted, errors.Join(
			fmt.Errorf("interrupted; %d of %d policies ran to their end", len(all.whole()), len(r.policies)), all.faults(), unheard))
	}
	if err := errors.Join(all.faults(), unheard); err != nil {
		return show.Faults(r.stderr, "images", show.StatusFailed, err)
	}
	return show.StatusOK
}

// comparison is the results of the policies, in the order in which they ran.
type comparison []row

// whole returns the runs that completed, with any result.
func (c comparison) whole() (runs comparison) {
	for _, run := range c {
		if run.report != nil && run.status != show.StatusInterrupted {
			runs = append(runs, run)
		}
	}
	return runs
}

// different returns the policies whose images differ from the images of the
// first policy.
func (c comparison) different() (names []string) {
	runs := c.whole()
	for _, run := range runs {
		if run.report.Digest != runs[0].report.Digest {
			names = append(names, run.policy)
		}
	}
	return names
}

// faults returns everything that went wrong.
func (c comparison) faults() (all error) {
	for _, run := range c {
		switch {
		case run.died != nil:
			all = errors.Join(all, fmt.Errorf("policy %s: no report: %w", run.policy, run.died))
		case run.status != show.StatusOK && run.status != show.StatusInterrupted:
			all = errors.Join(all, fmt.Errorf("policy %s: failed, status %d", run.policy, run.status))
		}
	}
	different := c.different()
	return errors.Join(all, show.Fault(len(different) > 0, "images that differ from those of %s: %s",
		c.first(), strings.Join(different, ", ")))
}

// first returns the policy that the others are compared with.
func (c comparison) first() string {
	for _, run := range c.whole() {
		return run.policy
	}
	return "-"
}

func (c comparison) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	// Flush reports a write error.
	_, _ = fmt.Fprintln(t, strings.ReplaceAll(
		"policy|wall|cpu|images alive|peak memory|rounds|empty visits|ok/failed|balanced|", "|", "\t"))
	for _, run := range c {
		_, _ = fmt.Fprintln(t, strings.Join(run.cells(), "\t")+"\t")
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nimages byte-identical across policies: %s\n", c.identical())
	return err
}

// identical returns yes or no, or why it is not known.
func (c comparison) identical() string {
	different := c.different()
	switch {
	case len(c.whole()) < 2:
		return "not known, fewer than two policies ran to their end"
	case len(different) > 0:
		return fmt.Sprintf("no, not those of %s and of %s", c.first(), strings.Join(different, ", "))
	default:
		return "yes"
	}
}

// cells returns the cells of a run in the table.
func (r row) cells() []string {
	if r.report == nil {
		return append([]string{r.policy + " (died)"}, strings.Fields(strings.Repeat("- ", 8))...)
	}
	name, balanced := r.policy, "NO"
	if r.status == show.StatusInterrupted {
		name += " (interrupted)"
	}
	if r.report.Balanced {
		balanced = "yes"
	}
	return []string{
		name,
		show.Brief(time.Duration(r.report.WallMS) * time.Millisecond),
		r.report.cpu(),
		strconv.Itoa(r.report.PeakLive),
		fmt.Sprintf("%d MiB", r.report.PeakRSSBytes>>20),
		strconv.FormatUint(r.report.Rounds, 10),
		strconv.FormatUint(r.report.EmptyVisits, 10),
		fmt.Sprintf("%d/%d", r.report.OK, r.report.Failed+r.report.DeadLettered),
		balanced,
	}
}
