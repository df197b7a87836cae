package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"time"
)

// run is the whole program.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c, err := parse(args, stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return statusOK
	case err != nil:
		return complain(stderr, statusUsage, err)
	}
	suite := newSuite(c, stderr)
	suite.measure(ctx)
	if ctx.Err() != nil {
		return complain(stderr, statusInterrupted, errors.New("interrupted"))
	}
	if err := suite.tell(stdout); err != nil {
		return complain(stderr, statusFailed, err)
	}
	return suite.verdict(stderr)
}

// suite is one run of the suite.
type suite struct {
	config

	progress io.Writer
	spin     int
	begin    time.Time
	results  []*result // of each work all that take part, in order
	failures []error   // of measurements that came to nothing
}

func newSuite(c config, progress io.Writer) *suite {
	s := &suite{config: c, progress: progress, spin: calibrate(), begin: time.Now()}
	for _, w := range c.works {
		for _, i := range c.impls {
			if _, ok := w.takes(i); ok {
				s.results = append(s.results, &result{work: w, impl: i})
			}
		}
	}
	return s
}

// measure makes all measurements, round by round, until ctx ends. One that fails is kept in
// mind, and the others go on: they have taken minutes.
func (s *suite) measure(ctx context.Context) {
	total, done := s.rounds*len(s.results), 0
	for round := range s.rounds {
		for _, w := range s.works {
			for _, r := range s.turn(w, round) {
				if ctx.Err() != nil {
					return
				}
				done++
				_, _ = fmt.Fprintf(s.progress, "%3d of %d  round %d  %-4s %-14s %s\n",
					done, total, round+1, w.name, r.impl.name, s.one(ctx, r))
			}
		}
	}
}

// one makes one measurement and says what came of it.
func (s *suite) one(ctx context.Context, r *result) string {
	begin := time.Now()
	found, err := send(ctx, order{
		Work: r.work.name, Impl: r.impl.name, Spin: s.spin, Moment: s.moment, Profile: s.cpuprofile,
	})
	if err != nil {
		s.failures = append(s.failures, err)
		r.failures = append(r.failures, err)
		return "failed: " + err.Error()
	}
	r.samples = append(r.samples, found)
	return fmt.Sprintf("%s (%.1fs)", r.brief(found), time.Since(begin).Seconds())
}

// verdict says what failed, a line each, and returns the status.
func (s *suite) verdict(stderr io.Writer) int {
	status := statusOK
	for _, err := range s.failures {
		status = complain(stderr, statusFailed, err)
	}
	return status
}

// turn is the order in which a round measures a work: each round begins with another
// implementation, so that nobody always comes after the same one.
func (s *suite) turn(w work, round int) []*result {
	all := s.of(w)
	if len(all) == 0 {
		return nil
	}
	k := round % len(all)
	return append(append([]*result(nil), all[k:]...), all[:k]...)
}

// of are the results of a work.
func (s *suite) of(w work) (all []*result) {
	for _, r := range s.results {
		if r.work.name == w.name {
			all = append(all, r)
		}
	}
	return all
}

// tell prints what was found, of all that was measured at least once.
func (s *suite) tell(stdout io.Writer) error {
	all := s.results
	s.results = slices.DeleteFunc(slices.Clone(all), func(r *result) bool { return len(r.samples) == 0 })
	if s.report != "" {
		if err := s.writeReport(s.report, all); err != nil {
			return err
		}
	}
	if s.json {
		return s.printJSON(stdout)
	}
	return s.print(stdout)
}
