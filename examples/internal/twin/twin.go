// Package twin compares an example with its twin: a program that does the same
// without Golda, with goroutines and channels. It counts the lines of code of
// both, measures both, has both crash in a process of their own, and keeps the
// table of the results in the example's README true.
package twin

import (
	"bytes"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/golda-dev/golda/examples/internal/show"
)

var (
	update  = flag.Bool("update", false, "write the table to the README")
	measure = flag.Bool("measure", false, "measure times and allocations, and write them to the README; takes a minute")
)

// Row is a row of the table.
type Row struct{ Name, Golda, Hand string }

// Code returns the rows with the lines of code: of the files that differ, and
// of the whole programs with their shared files.
func Code(t *testing.T, golda, hand string, shared ...string) []Row {
	t.Helper()
	count := func(files ...string) int {
		n, err := Lines(files...)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	a, b, both := count(golda), count(hand), count(shared...)
	return []Row{
		{"lines of code that differ", strconv.Itoa(a), strconv.Itoa(b)},
		{"lines of code, the whole program", strconv.Itoa(a + both), strconv.Itoa(b + both)},
	}
}

// Work is a measured program: it does all its work, and returns when it is
// done.
type Work func() error

// Cost returns the rows with the costs of both: time, CPU time and allocations,
// the medians of nine runs of each, in turn. They are measured only with the
// flag -measure; otherwise those in the README are kept.
func Cost(t *testing.T, item string, items int, golda, hand Work) []Row {
	t.Helper()
	rows := []Row{
		{Name: fmt.Sprintf("time for %s %ss", Thousands(items), item)},
		{Name: "CPU time for each " + item},
		{Name: "allocations for each " + item},
	}
	if !*measure {
		return rows
	}
	const rounds = 9
	var all [2][]cost
	for round := range 1 + rounds {
		for i := range all {
			i = (i + round) % 2 // each is the first as often as the other
			c, err := run([]Work{golda, hand}[i])
			if err != nil {
				t.Fatal(err)
			}
			if round > 0 { // the first run warms up
				all[i] = append(all[i], c)
			}
		}
	}
	cells := func(all []cost) (took, cpu, mallocs string) {
		took = show.Brief(median(all, func(c cost) time.Duration { return c.took }))
		cpu = show.Brief(median(all, func(c cost) time.Duration { return c.cpu }) / time.Duration(items))
		return took, cpu, fmt.Sprintf("%.1f", float64(median(all, func(c cost) uint64 { return c.mallocs }))/float64(items))
	}
	rows[0].Golda, rows[1].Golda, rows[2].Golda = cells(all[0])
	rows[0].Hand, rows[1].Hand, rows[2].Hand = cells(all[1])
	return rows
}

// cost is the cost of a run.
type cost struct {
	took, cpu time.Duration
	mallocs   uint64
}

func run(f Work) (cost, error) {
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began, _ := show.CPUTime()
	begin := time.Now()
	err := f()
	took := time.Since(begin)
	ended, _ := show.CPUTime()
	runtime.ReadMemStats(&after)
	return cost{took, ended - began, after.Mallocs - before.Mallocs}, err
}

func median[T cmp.Ordered](all []cost, of func(cost) T) T {
	values := make([]T, 0, len(all))
	for _, c := range all {
		values = append(values, of(c))
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// Thousands writes a number with commas.
func Thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// block is where the table is in a README.
var block = regexp.MustCompile(`(?s)(<!-- twin: [^\n]* -->\n\n)(.*?)(\n<!-- end of twin -->\n)`)

// Check compares the table in README.md with the rows, and writes it with the
// flag -update or -measure. Empty cells of the rows are not compared: the table
// keeps its cells there.
func Check(t *testing.T, rows []Row) {
	t.Helper()
	const name = "README.md"
	readme, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	at := block.FindSubmatchIndex(readme)
	if at == nil {
		t.Fatalf("%s has no place for the table: <!-- twin: … -->", name)
	}
	there := string(readme[at[4]:at[5]])
	want := table(rows, there)
	if want == there {
		return
	}
	if !*update && !*measure {
		t.Fatalf("the table in %s is out of date; run the test with -update. It should be:\n%s", name, want)
	}
	//nolint:gosec // the name is README.md, and all may read it
	if err := os.WriteFile(name, slices.Concat(readme[:at[4]], []byte(want), readme[at[5]:]), 0o644); err != nil {
		t.Fatal(err)
	}
}

// table writes rows, and takes empty cells from an earlier table.
func table(rows []Row, earlier string) string {
	var b strings.Builder
	b.WriteString("| | Golda | by hand |\n|---|---|---|\n")
	for _, r := range rows {
		for line := range strings.Lines(earlier) {
			if cells := strings.Split(line, " | "); r.Golda == "" && r.Hand == "" && len(cells) == 3 && cells[0] == "| "+r.Name {
				r.Golda, r.Hand = cells[1], strings.TrimSuffix(cells[2], " |\n")
			}
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", r.Name, r.Golda, r.Hand)
	}
	return b.String()
}

// child is the environment variable that has the name of a child process's
// work.
const child = "GOLDA_TWIN"

// Main runs the work that a parent process asks for with [Child], and does
// nothing in other processes. TestMain calls it first.
func Main(works map[string]Work) {
	name := os.Getenv(child)
	if name == "" {
		return
	}
	work := works[name]
	if work == nil {
		work = func() error { return errors.New("twin: there is no such work") }
	}
	if err := work(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Child does a work of [Main] in a process of its own. It returns the output of
// that process and its exit status.
func Child(t *testing.T, work string) (stdout, stderr string, status int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self) //nolint:gosec // this process again
	cmd.Env = append(os.Environ(), child+"="+work)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}
