package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
)

// writeReport writes the page of figures. all is the results, including those
// without any figure.
func (s *suite) writeReport(file string, all []*result) error {
	var out strings.Builder
	fmt.Fprintf(&out, pageTop, s.method())
	s.targetTable().markdown(&out, "##")
	fmt.Fprint(&out, "[speed.md](speed.md) explains where the time goes, and why some targets are not met.\n\n")
	writeFailures(&out, all)
	s.promises().markdown(&out, "##")
	fmt.Fprint(&out, pageFigures)
	for _, w := range s.works {
		s.table(w).markdown(&out, "###")
	}
	return os.WriteFile(file, []byte(out.String()), 0o644) //nolint:gosec // the page is public
}

// writeFailures lists the implementations with failed measurements, and the
// reason of the last failure of each.
func writeFailures(w *strings.Builder, all []*result) {
	for _, r := range all {
		if n := len(r.failures); n > 0 {
			fmt.Fprintf(w, "- In %d of %d measurements have no figure. %v.\n", n, n+len(r.samples), r.failures[n-1])
		}
	}
	fmt.Fprintln(w)
}

const pageTop = `# Performance

The same work on Golda, on plain calls, on channels, on protoactor-go, and on every alternative library that was available.
` + "`make bench-report`" + ` writes this page; nothing on it was typed by hand. The words are those of [words.md](words.md), the
code is in [bench](../bench).

%s

## Method

- **The same work.** All implementations get the same commands, in the same number: pointers to a small struct, except in W9.
  An implementation with bounds has 1,024 slots for commands before each stage (W10: 16). One submitter is outside the line;
  in W5 and W6 each request has a goroutine of its own that waits for the answer.
- **All commands count.** They are counted as they leave the last stage, in the same way for all. If one is missing the
  run fails; in W6 the missing ones are the figure. No handler has a recover of its own there.
- **Turns.** A round measures each work on each implementation, each time in another order. Each measurement has
  a process of its own, is warmed up with a tenth of the commands, and collects its garbage before the clock starts. The
  fast ones repeat the commands until 0.3 s have passed, Golda and channels 0.5 s, Golda 1 s in works in which its
  metrics are read. Implementations that a target compares are measured several times a round, one right after the other.
- **Ratios.** A figure is the median of all measurements, with the least and the most beside it. A ratio in a table of
  figures is that of two medians. Among the targets it is the median of the ratios of measurements that followed one
  another, because other load of the machine slows both. *between* is the range that contains the true median of such
  ratios in 19 of 20 cases, by the order of the ratios alone; for fewer than six it is the least and the most. A limit
  within the range may be met or missed by chance. Less is better everywhere. Absolute figures are those of this machine
  on this day, with its other load.
- **Metrics** are read as Prometheus reads them, compressed, by a handler in the same process; the network, and the work
  of Prometheus, is not included. One scrape a second costs less than the difference of two measurements of the same thing.
  So another line is read fifty times a second: a fiftieth of the difference is the cost of one.
- **Golda with its defaults:** policy, accounts, crash handling, dead letters. Only the numbers of workers are set.
- **W5 and W15** count from when a request should have been sent, so that a wait for the sender counts, too. If more than one
  in a hundred is sent more than 10 ms late the run fails: the generator missed its schedule. Most of the time that is
  counted is the lateness of the generator itself, because a timer is not exact and the machine has other work. *once sent*
  counts from when the request was actually sent, and distinguishes the implementations.
- **W7** is the growth of heap and stacks, a second after one command has passed through all stages.

An implementation is one file in [bench](../bench), and a further one is added by a file. Hollywood, ergo, GoAkt and Bento are
missing: the module registry of the machine on which the suite was written did not serve them. go-streams is compared by
[its windows](decisions/windows.md#a-window-of-event-time-is-held-by-a-command-of-its-own).

`

const pageFigures = `## Figures

*allocs* are those of the whole process. *bound* says what may wait before a stage, *order* whether commands keep their order.

`

// method says which measurements were run, where and when.
func (s *suite) method() string {
	return fmt.Sprintf("%s on %s, %s, %s, %s, %s/%s; started at %s.",
		plural(s.rounds, "round"), s.begin.UTC().Format("2006-01-02"), processor(), plural(runtime.GOMAXPROCS(0), "processor"),
		runtime.Version(), runtime.GOOS, runtime.GOARCH, s.begin.UTC().Format("15:04 UTC"))
}

// plural returns a count with its noun.
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// promises returns the table of the implementations' guarantees.
func (s *suite) promises() table {
	t := table{
		title: "What each guarantees",
		head:  []string{"implementation", "what it is", "what waits", "order", "a handler that panics"},
	}
	for _, i := range s.impls {
		t.rows = append(t.rows, []string{i.name, i.what, i.promise.bound, i.promise.order, i.promise.crash})
	}
	return t
}

// markdown writes the table for the page.
func (t table) markdown(w *strings.Builder, level string) {
	if len(t.rows) == 0 {
		return
	}
	fmt.Fprintf(w, "%s %s\n\n| %s |\n", level, t.title, strings.Join(t.head, " | "))
	for i := range t.head {
		fmt.Fprint(w, map[bool]string{true: "|---:", false: "|---"}[t.numeric(i)])
	}
	fmt.Fprint(w, "|\n")
	for _, row := range t.rows {
		fmt.Fprintf(w, "| %s |\n", strings.Join(row, " | "))
	}
	for _, note := range t.notes {
		fmt.Fprintf(w, "\n%s.\n", strings.ToUpper(note[:1])+note[1:])
	}
	fmt.Fprintln(w)
}

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
