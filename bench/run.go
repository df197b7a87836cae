package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
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
	if err := suite.measure(ctx); err != nil {
		if ctx.Err() != nil {
			return complain(stderr, statusInterrupted, errors.New("interrupted"))
		}
		return complain(stderr, statusFailed, err)
	}
	if err := suite.tell(stdout); err != nil {
		return complain(stderr, statusFailed, err)
	}
	return statusOK
}

// suite is one run of the suite.
type suite struct {
	config

	progress io.Writer
	spin     int
	begin    time.Time
	results  []*result // of each work all that take part, in order
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

// measure makes all measurements, round by round.
func (s *suite) measure(ctx context.Context) error {
	total, done := s.rounds*len(s.results), 0
	for round := range s.rounds {
		for _, w := range s.works {
			for _, r := range s.turn(w, round) {
				done++
				begin := time.Now()
				one, err := send(ctx, order{Work: w.name, Impl: r.impl.name, Spin: s.spin, Moment: s.moment})
				if err != nil {
					return err
				}
				r.samples = append(r.samples, one)
				_, _ = fmt.Fprintf(s.progress, "%3d of %d  round %d  %-4s %-14s %s (%.1fs)\n",
					done, total, round+1, w.name, r.impl.name, r.brief(one), time.Since(begin).Seconds())
			}
		}
	}
	return nil
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

// tell prints what was found.
func (s *suite) tell(stdout io.Writer) error {
	if s.report != "" {
		if err := s.writeReport(s.report); err != nil {
			return err
		}
	}
	if s.json {
		return s.printJSON(stdout)
	}
	return s.print(stdout)
}
