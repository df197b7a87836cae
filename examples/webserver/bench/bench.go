package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

const (
	module = "github.com/golda-dev/golda/examples/webserver"
	site   = "examples/webserver/site" // relative to the root of the repository
)

// bench holds the values of the flags.
type bench struct {
	rounds, seconds int
	connections     []int
	args, side      string
}

// side is one of the two servers.
type side struct {
	name    string
	program string
	args    func(addr string) []string
}

func (b bench) run(ctx context.Context) error {
	if _, err := exec.LookPath("wrk"); err != nil {
		return errors.New("wrk makes the load, and is not here; on Debian: apt-get install wrk")
	}
	dir, err := os.MkdirTemp("", "golda-bench-web-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is temporary
	sides, err := b.build(ctx, dir)
	if err != nil {
		return err
	}
	results := map[key][]measure{}
	for round := range b.rounds {
		for _, n := range b.connections {
			for i := range sides {
				s := sides[(i+round)%len(sides)] // the sides take turns to start
				m, err := b.measure(ctx, s, n)
				if err != nil {
					return fmt.Errorf("%s, %d connections: %w", s.name, n, err)
				}
				fmt.Fprintf(os.Stderr, "round %d  %4d connections  %-9s  %s\n", round+1, n, s.name, m)
				results[key{s.name, n}] = append(results[key{s.name, n}], m)
			}
		}
	}
	return b.print(sides, results)
}

// build compiles the two servers.
func (b bench) build(ctx context.Context, dir string) ([]side, error) {
	all := []side{
		{"webserver", module, func(addr string) []string {
			return append([]string{"-addr", addr, "-root", site}, strings.Fields(b.args)...)
		}},
		{"plain", module + "/bench/plain", func(addr string) []string { return []string{addr, site} }},
	}
	if b.side != "" {
		all = slices.DeleteFunc(all, func(s side) bool { return s.name != b.side })
	}
	for i, s := range all {
		program := filepath.Join(dir, s.name)
		compile := exec.CommandContext(ctx, "go", "build", "-o", program, s.program) //nolint:gosec // from a table above
		if out, err := compile.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("go build %s: %w\n%s", s.program, err, out)
		}
		all[i].program = program
	}
	return all, nil
}

// measure loads one freshly started server.
func (b bench) measure(ctx context.Context, s side, connections int) (measure, error) {
	addr, err := freeAddress(ctx)
	if err != nil {
		return measure{}, err
	}
	p, err := start(ctx, s.program, s.args(addr))
	if err != nil {
		return measure{}, err
	}
	url := "http://" + addr + "/index.html"
	m, err := measure{}, p.ready(ctx, url)
	if err == nil {
		m, err = wrk(ctx, url, connections, time.Duration(b.seconds)*time.Second)
	}
	if err == nil {
		m.peak, err = p.peak()
	}
	return m, cmp.Or(err, p.stop())
}

// key returns the name of a side's measurements.
type key struct {
	side        string
	connections int
}

// print prints the medians over the rounds, and the ratios of the first side to
// the second.
func (b bench) print(sides []side, results map[key][]measure) error {
	fmt.Printf("medians of %d rounds of %d s; %s, %d processors, shared with wrk; %s\n\n",
		b.rounds, b.seconds, processor(), runtime.NumCPU(), runtime.Version())
	t := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(t, "connections\tserver\trequests/s\tp50\tp99\tpeak RSS\terrors\t")
	for _, n := range b.connections {
		medians := make([]measure, 0, len(sides))
		for _, s := range sides {
			m := median(results[key{s.name, n}])
			medians = append(medians, m)
			_, _ = fmt.Fprintf(t, "%d\t%s\t%.0f\t%s\t%s\t%.1f MiB\t%d\t\n", n, s.name, m.rate, m.p50, m.p99, m.peak/(1<<20), m.errors)
		}
		if len(medians) == 2 {
			own, other := medians[0], medians[1]
			_, _ = fmt.Fprintf(t, "\tratio\t%.2f\t%.2f\t%.2f\t%.2f\t\t\n",
				own.rate/other.rate, ratio(own.p50, other.p50), ratio(own.p99, other.p99), own.peak/other.peak)
		}
	}
	return t.Flush()
}

func ratio(a, b time.Duration) float64 { return float64(a) / float64(b) }

// processor returns the name of the machine's processor.
func processor() string {
	info, _ := os.ReadFile("/proc/cpuinfo") // an empty name replaces an error
	for line := range strings.Lines(string(info)) {
		if name, ok := strings.CutPrefix(line, "model name"); ok {
			return strings.TrimLeft(strings.TrimSpace(name), ": \t")
		}
	}
	return runtime.GOARCH
}
