package main

import (
	"context"
	"fmt"
	"io"
	"time"
)

// suite is one run of the program.
type suite struct {
	config

	progress io.Writer
	begin    time.Time
	samples  map[string][]sample // by system
	failures []error
}

func newSuite(c config, progress io.Writer) *suite {
	return &suite{config: c, progress: progress, begin: time.Now(), samples: map[string][]sample{}}
}

// measure makes all measurements, round by round, until ctx ends. A failure is
// recorded, and the other measurements continue.
func (s *suite) measure(ctx context.Context) {
	for round := range s.rounds {
		for k := range s.systems {
			at := (k + round) % len(s.systems) // each round begins with another one
			if round%2 == 1 {
				at = len(s.systems) - 1 - at
			}
			one, begin := s.systems[at], time.Now()
			m, err := measure(ctx, s.config, one)
			if ctx.Err() != nil {
				return
			}
			text := m.brief()
			if err != nil {
				s.failures = append(s.failures, fmt.Errorf("%s: %w", one.name, err))
				text = "failed: " + err.Error()
			} else {
				s.samples[one.name] = append(s.samples[one.name], m)
			}
			_, _ = fmt.Fprintf(s.progress, "%2d of %d  round %d  %-10s %s (%.1fs)\n",
				round*len(s.systems)+k+1, s.rounds*len(s.systems), round+1, one.name, text, time.Since(begin).Seconds())
		}
	}
}

// brief is a measurement in one line.
func (m sample) brief() string {
	return fmt.Sprintf("%.0f added/s, %.0f done/s, urgent %v of %v, %d kills: %v, %d twice, %d lost, %d not done yet",
		m.addedRate, m.doneRate, part50(m.waits).Round(time.Millisecond), m.backlog.Round(time.Millisecond),
		m.kills, m.killed.Round(time.Millisecond), m.twice, m.lost, m.waiting)
}

// part50 returns the median of sorted times.
func part50(all []time.Duration) time.Duration {
	if len(all) == 0 {
		return 0
	}
	return all[len(all)/2]
}
