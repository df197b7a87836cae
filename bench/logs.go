package main

import (
	"context"
	"fmt"
	"hash/maphash"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// logLines is how many different lines W13 has. They are sent again and again,
// a million times.
const logLines = 20_000

// logLine is a command of W13: a parsed line, 88 bytes by value.
type logLine struct {
	host, method, path, network string
	status, size, number        int
}

// logs measures a small program instead of a line of stages: a million lines of
// a log are split with strings.Fields, get the network of their host, and are
// added up by host, in order: W13. Each implementation is written as its users
// would write it. Nothing is measured but the whole, so a hop is a line.
func logs(impl implementation, o order) (sample, error) {
	lines := make([]string, logLines)
	for i := range lines {
		host := i * i % 1999
		lines[i] = fmt.Sprintf("10.0.%d.%d - - [22/Nov/2026] GET /item/%d HTTP/1.1 %d %d", host/256, host%256, i%977, 200+i%3*100, i)
	}
	n := o.commands(1_000_000)
	if _, err := runLogs(impl, lines, max(1, n/10)); err != nil {
		return sample{}, err
	}
	runtime.GC()
	before := used()
	counted, err := runLogs(impl, lines, n)
	result := sample{Commands: n, Answered: counted}
	before.since(&result, n, 1)
	if err == nil && counted != n {
		err = fmt.Errorf("%d of %d lines never ended", n-counted, n)
	}
	return result, err
}

func runLogs(impl implementation, lines []string, n int) (counted int, err error) {
	program, err := impl.logs()
	if err != nil {
		return 0, err
	}
	for i := range n {
		if err := program.submit(lines[i%len(lines)]); err != nil {
			return 0, err
		}
	}
	return program.stop()
}

// parseLog splits a line.
func parseLog(line string) (l logLine, err error) {
	f := strings.Fields(line)
	if len(f) != 9 {
		return l, fmt.Errorf("a line of %d fields", len(f))
	}
	l.host, l.method, l.path = f[0], f[4], f[5]
	if l.status, err = strconv.Atoi(f[7]); err != nil {
		return l, err
	}
	l.size, err = strconv.Atoi(f[8])
	return l, err
}

// enrichLog adds the network of the host.
func enrichLog(l logLine) logLine {
	l.network = l.host[:strings.LastIndexByte(l.host, '.')]
	return l
}

// logSums are the sums of one host.
type logSums struct{ lines, bytes int }

func (s *logSums) add(l logLine) {
	s.lines++
	s.bytes += l.size
}

// HandleCommand adds a line.
func (s *logSums) HandleCommand(_ context.Context, l logLine) behaviour.Outcome {
	s.add(l)
	return behaviour.OK(nil)
}

// logProgram is a program of W13 that has been started.
type logProgram struct {
	submit func(line string) error
	// stop ends the program when all lines are done, and returns how many were
	// counted.
	stop func() (counted int, err error)
}

// goldaLogs is the program with a keyed stage.
func goldaLogs() (logProgram, error) {
	parse := stage.Map("parse", func(_ context.Context, line string) (logLine, error) { return parseLog(line) })
	enrich := stage.Map("enrich", func(_ context.Context, l logLine) (logLine, error) { return enrichLog(l), nil })
	count := stage.Keyed("count", func(l logLine) string { return l.host }, func(string) *logSums { return new(logSums) })
	p, err := goldaStarted([]pipeline.Part{parse.To(enrich), enrich.To(count)})
	if err != nil {
		return logProgram{}, err
	}
	ctx := context.Background()
	return logProgram{
		submit: func(line string) error { return parse.Submit(ctx, line) },
		stop: func() (int, error) {
			if err := p.Drain(ctx); err != nil {
				return 0, err
			}
			return int(count.Snapshot().Counts.OK), p.Stop(ctx)
		},
	}, nil
}

// logCounters is how many goroutines count in the program by hand. The lines of
// a host always go to the same one.
const logCounters = 32

// channelLogs is the program by hand.
func channelLogs() (logProgram, error) {
	in, parsed := make(chan string, capacity), make(chan logLine, capacity)
	var counters [logCounters]chan logLine
	var counted [logCounters]int
	var parsers, enrichers, counting sync.WaitGroup
	seed := maphash.MakeSeed()
	for i := range counters {
		counters[i] = make(chan logLine, capacity/logCounters)
		counting.Go(func() {
			sums := map[string]*logSums{}
			for l := range counters[i] {
				s := sums[l.host]
				if s == nil {
					s = new(logSums)
					sums[l.host] = s
				}
				s.add(l)
			}
			for _, s := range sums {
				counted[i] += s.lines
			}
		})
	}
	for range runtime.GOMAXPROCS(0) {
		parsers.Go(func() {
			for line := range in {
				if l, err := parseLog(line); err == nil {
					parsed <- l
				}
			}
		})
		enrichers.Go(func() {
			for l := range parsed {
				l = enrichLog(l)
				counters[maphash.String(seed, l.host)%logCounters] <- l
			}
		})
	}
	return logProgram{
		submit: func(line string) error {
			in <- line
			return nil
		},
		stop: func() (sum int, err error) {
			close(in)
			parsers.Wait()
			close(parsed)
			enrichers.Wait()
			closeAll(counters[:])
			counting.Wait()
			for _, n := range counted {
				sum += n
			}
			return sum, nil
		},
	}, nil
}
