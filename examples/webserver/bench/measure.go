package main

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// measure is what wrk measured of a server, and the server's peak memory.
type measure struct {
	rate     float64 // requests a second
	p50, p99 time.Duration
	errors   int
	peak     float64 // bytes
}

// String returns the figures in one line.
func (m measure) String() string {
	return fmt.Sprintf("%6.0f requests/s  p50 %-8s p99 %-8s %.1f MiB  %d errors", m.rate, m.p50, m.p99, m.peak/(1<<20), m.errors)
}

// wrk loads a server. It uses as many threads as this small machine has
// processors.
func wrk(ctx context.Context, url string, connections int, d time.Duration) (measure, error) {
	args := []string{"-t2", "-c" + strconv.Itoa(connections), "-d" + d.String(), "--latency", url}
	out, err := exec.CommandContext(ctx, "wrk", args...).CombinedOutput() //nolint:gosec // our own arguments
	if err != nil {
		return measure{}, fmt.Errorf("wrk: %w\n%s", err, out)
	}
	return parse(string(out))
}

var (
	rateLine   = regexp.MustCompile(`Requests/sec:\s+([\d.]+)`)
	p50Line    = regexp.MustCompile(`(?m)^\s+50%\s+(\S+)$`)
	p99Line    = regexp.MustCompile(`(?m)^\s+99%\s+(\S+)$`)
	socketLine = regexp.MustCompile(`Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)`)
	statusLine = regexp.MustCompile(`Non-2xx or 3xx responses: (\d+)`)
)

// parse parses the output of wrk.
func parse(out string) (m measure, err error) {
	fields := []string{first(rateLine, out), first(p50Line, out), first(p99Line, out)}
	if m.rate, err = strconv.ParseFloat(fields[0], 64); err != nil {
		return m, fmt.Errorf("wrk printed no rate:\n%s", out)
	}
	if m.p50, err = time.ParseDuration(fields[1]); err != nil {
		return m, fmt.Errorf("wrk printed no median:\n%s", out)
	}
	if m.p99, err = time.ParseDuration(fields[2]); err != nil {
		return m, fmt.Errorf("wrk printed no 99th percentile:\n%s", out)
	}
	for _, number := range slices.Concat(socketLine.FindStringSubmatch(out), statusLine.FindStringSubmatch(out)) {
		if n, err := strconv.Atoi(number); err == nil { // the first match of each is the whole line
			m.errors += n
		}
	}
	return m, nil
}

func first(line *regexp.Regexp, out string) string {
	if found := line.FindStringSubmatch(out); found != nil {
		return strings.TrimSpace(found[1])
	}
	return ""
}

// median returns the median of each figure by itself.
func median(all []measure) measure {
	return measure{
		rate:   middle(all, func(m measure) float64 { return m.rate }),
		p50:    middle(all, func(m measure) time.Duration { return m.p50 }),
		p99:    middle(all, func(m measure) time.Duration { return m.p99 }),
		errors: slices.Max(each(all, func(m measure) int { return m.errors })),
		peak:   middle(all, func(m measure) float64 { return m.peak }),
	}
}

func middle[T float64 | time.Duration](all []measure, of func(measure) T) T {
	values := each(all, of)
	slices.Sort(values)
	return values[len(values)/2]
}

func each[T any](all []measure, of func(measure) T) []T {
	values := make([]T, len(all))
	for i, m := range all {
		values[i] = of(m)
	}
	return values
}
