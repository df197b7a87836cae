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

// run runs the program and returns its exit status.
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
	if err := suite.output(stdout); err != nil {
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
	// results holds the results of each work, for all implementations that
	// take part, in order.
	results  []*result
	failures []error // of measurements without a figure
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

// measure makes all measurements, round by round, until ctx ends. A failure is
// recorded, and the other measurements continue: they have taken minutes.
func (s *suite) measure(ctx context.Context) {
	total, done := 0, 0
	for _, w := range s.works {
		total += s.rounds * len(s.turns(w, 0))
	}
	for round := range s.rounds {
		for _, w := range s.works {
			for _, t := range s.turns(w, round) {
				if ctx.Err() != nil {
					return
				}
				done++
				_, _ = fmt.Fprintf(s.progress, "%3d of %d  round %d  %-4s %-15s %s\n",
					done, total, round+1, w.name, t.impl.name, s.one(ctx, t))
			}
		}
	}
}

// one makes one measurement and returns its result as text.
func (s *suite) one(ctx context.Context, t turn) string {
	begin := time.Now()
	found, err := send(ctx, order{
		Work: t.work.name, Impl: t.impl.name, Spin: s.spin, Moment: s.moment, Profile: s.cpuprofile,
	})
	if err != nil {
		s.failures = append(s.failures, err)
		t.failures = append(t.failures, err)
		return "failed: " + err.Error()
	}
	found.turn = t.number
	t.samples = append(t.samples, found)
	return fmt.Sprintf("%s (%.1fs)", t.brief(found), time.Since(begin).Seconds())
}

// verdict prints the failures, one a line, and returns the status.
func (s *suite) verdict(stderr io.Writer) int {
	status := statusOK
	for _, err := range s.failures {
		status = complain(stderr, statusFailed, err)
	}
	return status
}

// turn is one measurement to be made.
type turn struct {
	*result

	number int // the same for measurements that follow one another to be compared
}

// turns returns the measurements of a work in a round: first the rivals, which
// a target compares, several times one after the other, then all others. The
// other load of a machine changes within seconds, and by far more than the
// measured differences. So the ratio that counts compares two measurements that
// follow one another, and many such ratios are better than few long
// measurements.
func (s *suite) turns(w work, round int) (all []turn) {
	var rivals, others []*result
	for _, r := range s.of(w) {
		if s.rival(r) {
			rivals = append(rivals, r)
		} else {
			others = append(others, r)
		}
	}
	each := max(1, w.turns)
	if s.moment {
		each = 1
	}
	for n := round * each; n < (round+1)*each; n++ {
		for _, r := range ordered(rivals, n) {
			all = append(all, turn{r, n})
		}
	}
	for _, r := range ordered(others, round) {
		all = append(all, turn{r, round})
	}
	return all
}

// ordered returns the results in another order for each n, so that none always
// comes after the same one: a rotation from front to back, then the same from
// back to front, then the next rotation.
func ordered(all []*result, n int) []*result {
	if len(all) == 0 {
		return nil
	}
	k := n / 2 % len(all)
	turned := slices.Concat(all[k:], all[:k])
	if n%2 == 1 {
		slices.Reverse(turned)
	}
	return turned
}

// rival reports whether a target compares a result with another one that is
// measured, too.
func (s *suite) rival(r *result) bool {
	return slices.ContainsFunc(targets(), func(t target) bool {
		d := t.duel
		return d.work == r.work.name && (d.impl == r.impl.name || d.to == r.impl.name) &&
			s.has(d.work, d.impl) && s.has(d.work, d.to)
	})
}

// has reports whether an implementation is measured at a work.
func (s *suite) has(work, impl string) bool {
	return slices.ContainsFunc(s.results, func(r *result) bool { return r.work.name == work && r.impl.name == impl })
}

// of returns the results of a work.
func (s *suite) of(w work) (all []*result) {
	for _, r := range s.results {
		if r.work.name == w.name {
			all = append(all, r)
		}
	}
	return all
}

// output prints the results of everything that was measured at least once, and
// writes the report if one was asked for.
func (s *suite) output(stdout io.Writer) error {
	all := s.results
	s.results = slices.DeleteFunc(slices.Clone(all), func(r *result) bool { return len(r.samples) == 0 })
	print := s.print
	if s.json {
		print = s.printJSON
	}
	err := print(stdout)
	if s.report != "" {
		err = errors.Join(err, s.writeReport(s.report, all))
	}
	return err
}
