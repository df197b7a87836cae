package simulator_test

import (
	"flag"
	"fmt"
	"math"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/controller/simulator"
)

var update = flag.Bool("update", false, "write the tables of docs/scaling.md")

// hop is what the server needs for a message on disk: docs/durable.md has measured it.
const hop = 52 * time.Microsecond

// orders is the pipeline of the tables: a check that computes, a call of another service, and a database.
func orders(rate float64) simulator.Model {
	return simulator.Model{
		Seed: 1, Length: 75 * second, Warmup: 60 * second, CPUs: 2, Policy: policy.Backlog{},
		Sources: []simulator.Source{{To: "check", Load: simulator.Steady(rate)}},
		Stages: []simulator.Stage{
			{Name: "check", Service: simulator.Exponential(100 * time.Microsecond), Computes: true, Most: 8, Forward: []simulator.Edge{{"call", 1}}},
			{Name: "call", Service: simulator.LogNormal{20 * milli, 1}, Most: 300, Forward: []simulator.Edge{{"save", 1}}},
			{Name: "save", Service: simulator.Exponential(10 * milli), Most: 64},
		},
	}
}

// slow is a stage whose commands take a second, on processes of 16 workers that are started and stopped by an autoscaler.
func slow(load simulator.Load, processes int) simulator.Model {
	return simulator.Model{
		Seed: 1, Sources: []simulator.Source{{To: "work", Load: load}},
		Stages: []simulator.Stage{{Name: "work", Service: simulator.LogNormal{second, 1}, Workers: 16}},
		Fleet:  &simulator.Fleet{Processes: processes, Hop: hop, Delay: milli / 2, InFlight: 64, Scale: &simulator.Autoscaler{}},
	}
}

// The tables of docs/scaling.md are what the simulator says. It takes some seconds, because some millions of commands
// are simulated.
func TestThePageHasTheFiguresOfTheSimulator(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("other processors round some logarithms in another way")
	}
	if testing.Short() || raced {
		t.Skip("it takes long")
	}
	const name = "../../docs/scaling.md"
	page, err := os.ReadFile(name)
	require.NoError(t, err)
	text := string(page)
	for heading, table := range map[string]func(*testing.T) []string{
		"From one process to ten million commands a second": sizes,
		"A load that becomes ten times as large":            jumps,
		"A day":                                             days,
		"A third of the processes is lost":                  losses,
		"Partitions of a keyed stage":                       partitions,
		"Handlers that compute":                             computers,
	} {
		at := time.Now()
		rows := table(t)
		t.Log(heading, time.Since(at), "\n"+strings.Join(rows, "\n"))
		if *update {
			text = replaced(t, text, heading, rows)
		} else {
			assert.Contains(t, text, strings.Join(rows, "\n")+"\n", "go test ./controller/simulator -run Page -update")
		}
	}
	if *update {
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	}
}

// replaced returns a page with the rows of the table below a heading replaced.
func replaced(t *testing.T, page, heading string, rows []string) string {
	t.Helper()
	before, rest, ok := strings.Cut(page, "\n### "+heading+"\n")
	require.True(t, ok, heading)
	text, table, ok := strings.Cut(rest, "\n|---")
	require.True(t, ok, heading)
	rule, table, _ := strings.Cut(table, "\n")
	_, after, _ := strings.Cut("\n"+table, "\n\n")
	return before + "\n### " + heading + "\n" + text + "\n|---" + rule + "\n" + strings.Join(rows, "\n") + "\n\n" + after
}

// show formats a duration in milliseconds or seconds.
func show(d time.Duration) string {
	if d < second {
		return fmt.Sprintf("%.0f ms", d.Seconds()*1000)
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

func grouped(n float64) string {
	s := fmt.Sprintf("%.0f", n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func sizes(t *testing.T) (rows []string) {
	row := func(rate float64, where string, streams, processes int, r *simulator.Result) {
		workers := 0.0
		for _, st := range r.Stages {
			workers += st.Workers
		}
		rows = append(rows, fmt.Sprintf("| %s | %s | %s | %s | %.0f%% | %s | %s | %s |", grouped(rate), where, grouped(float64(processes*streams)),
			grouped(workers*float64(streams)), 100*r.Server, show(r.Latency.Quantile(0.5)), show(r.Latency.Quantile(0.99)), show(r.Latency.Quantile(0.999))))
	}
	for _, rate := range []float64{100, 1000, 5000} {
		r := run(t, orders(rate))
		require.InEpsilon(t, rate, r.Throughput, 0.05)
		row(rate, "memory", 1, 1, r)
	}
	m := behind(orders(10_000), simulator.Fleet{Hop: hop, Delay: milli / 2})
	n, r, err := simulator.Fewest(t.Context(), m, 100, func(r *simulator.Result) bool { return r.Latency.Quantile(0.99) < 200*milli })
	require.NoError(t, err)
	require.NotZero(t, n)
	for streams := 1; streams <= 1000; streams *= 10 {
		where := fmt.Sprintf("%s streams", grouped(float64(streams)))
		if streams == 1 {
			where = "one stream"
		}
		row(10_000*float64(streams), where, streams, n, r)
	}
	return rows
}

func jumps(t *testing.T) (rows []string) {
	for _, c := range []struct {
		rate     float64
		target   time.Duration
		inFlight int
	}{{10, 10 * second, 64}, {100, 10 * second, 64}, {100, 10 * second, 1024}, {1000, 10 * second, 64}, {1000, time.Minute, 64}} {
		const at = time.Minute
		m := slow(simulator.Step(c.rate/10, c.rate, at), int(c.rate/10/16/0.7+1))
		m.Length, m.Every = 15*time.Minute, 15*second
		m.Fleet.Scale.Law.Target, m.Fleet.InFlight = c.target, c.inFlight
		r := run(t, m)
		most, calm, longest := 0, time.Duration(0), time.Duration(0)
		for _, p := range r.Series {
			most, longest = max(most, p.Processes), max(longest, p.Longest)
			if p.P99 > c.target && p.At > at {
				calm = p.At - at
			}
		}
		last := r.Series[len(r.Series)-1].Processes
		rows = append(rows, fmt.Sprintf("| %s → %s | %v | %d | %d → %d | %d | %s | %v |", grouped(c.rate/10), grouped(c.rate), c.target, c.inFlight, m.Fleet.Processes, last, most,
			show(longest), calm))
	}
	return rows
}

func days(t *testing.T) (rows []string) {
	for _, c := range []struct {
		name      string
		processes int
		scale     *simulator.Autoscaler
	}{
		{"always what noon needs", 5, nil},
		{"the autoscaler", 1, &simulator.Autoscaler{}},
		{"always what the mean needs", 3, nil},
	} {
		m := slow(simulator.Day(2, 50), c.processes)
		m.Length, m.Every = 24*time.Hour, time.Minute
		m.Fleet.Scale = c.scale
		r := run(t, m)
		most := 0
		for _, p := range r.Series {
			most = max(most, p.Processes)
		}
		rows = append(rows, fmt.Sprintf("| %s | %d | %.0f | %s | %s | %s |", c.name, most, r.Processes*24,
			show(r.Latency.Quantile(0.5)), show(r.Latency.Quantile(0.99)), show(r.Latency.Longest())))
	}
	return rows
}

func losses(t *testing.T) (rows []string) {
	for _, c := range []struct {
		rate      float64
		processes int
	}{{100, 9}, {1000, 90}, {1000, 120}} {
		const at = 2 * time.Minute
		m := slow(simulator.Steady(c.rate), c.processes)
		m.Length, m.Warmup, m.Every = 10*time.Minute, time.Minute, 10*second
		m.Fleet.Scale, m.Fleet.Losses = nil, []simulator.Loss{{At: at, Share: 1.0 / 3}}
		r := run(t, m)
		usual, worst, calm := r.Series[at/m.Every-1].P99, time.Duration(0), time.Duration(0)
		for _, p := range r.Series {
			if p.At > at && p.P99 > usual+usual/2 {
				calm = p.At - at
			}
			worst = max(worst, p.P99)
		}
		rows = append(rows, fmt.Sprintf("| %s | %d | %.0f%% | %d | %s | %s | %v |", grouped(c.rate), c.processes, 100*c.rate/16/float64(c.processes), r.Redelivered,
			show(usual), show(worst), calm))
	}
	return rows
}

func partitions(t *testing.T) (rows []string) {
	for _, rate := range []float64{100, 200, 300} {
		for _, n := range []int{32, 128, 512} {
			m := behind(one(rate, simulator.Stage{Service: simulator.Exponential(100 * milli), Workers: 16}), simulator.Fleet{
				Processes: int(rate*0.1/16/0.7 + 1), Hop: hop, Delay: milli / 2, Partitions: n,
			})
			m.Length, m.Warmup = 10*time.Minute, time.Minute
			r := run(t, m)
			rows = append(rows, fmt.Sprintf("| %.0f | %d | %d | %.0f%% | %s | %s |", rate, n, m.Fleet.Processes, 100*rate*0.1/float64(n),
				show(r.Latency.Quantile(0.5)), show(r.Latency.Quantile(0.99))))
		}
	}
	return rows
}

func computers(t *testing.T) (rows []string) {
	for _, most := range []int{2, 8, 32} {
		m := behind(one(200, simulator.Stage{Service: simulator.Exponential(50 * milli), Computes: true, Most: most}),
			simulator.Fleet{Hop: hop, Delay: milli / 2, InFlight: 64, Scale: &simulator.Autoscaler{}})
		m.Length, m.Warmup, m.Every, m.CPUs, m.Policy = time.Hour, 20*time.Minute, 10*second, 2, policy.Backlog{}
		r := run(t, m)
		least, highest := math.MaxInt, 0
		for _, p := range r.Series {
			if p.At > m.Warmup {
				least, highest = min(least, p.Processes), max(highest, p.Processes)
			}
		}
		rows = append(rows, fmt.Sprintf("| %d | %d to %d | %.1f | %s | %s | %s |", most, least, highest, r.Processes,
			show(r.Latency.Quantile(0.5)), show(r.Latency.Quantile(0.99)), show(r.Latency.Longest())))
	}
	return rows
}
