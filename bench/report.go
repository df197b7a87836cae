package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
)

// writeReport writes the page of figures. All are the results, those without any figure too.
func (s *suite) writeReport(file string, all []*result) error {
	var out strings.Builder
	fmt.Fprintf(&out, pageTop, s.method())
	s.targetTable().markdown(&out, "##")
	fmt.Fprint(&out, "[speed.md](speed.md) tells where the time goes, and why a target that is not met is not.\n\n")
	tellFailures(&out, all)
	s.promises().markdown(&out, "##")
	fmt.Fprint(&out, pageFigures)
	for _, w := range s.works {
		s.table(w).markdown(&out, "###")
	}
	return os.WriteFile(file, []byte(out.String()), 0o644) //nolint:gosec // a page for everybody
}

// tellFailures says which measurements came to nothing, and why the last of each did.
func tellFailures(w *strings.Builder, all []*result) {
	for _, r := range all {
		if n := len(r.failures); n > 0 {
			fmt.Fprintf(w, "- In %d of %d measurements there is no figure. %v.\n", n, n+len(r.samples), r.failures[n-1])
		}
	}
	fmt.Fprintln(w)
}

const pageTop = `# Performance

The same work on Golda, on plain calls, on channels, on protoactor-go, and on every peer that could be had. This page is
written by ` + "`make bench-report`" + `; nothing on it was typed by hand. The words are those of [words.md](words.md), the
code is in [bench](../bench).

%s

## Method

- **The same work.** All get the same commands, in the same number: pointers to a small struct, but for W9. Before each
  stage there is room for 1,024 commands (W10: 16) where an implementation has bounds. One submitter stands outside; in W5
  and W6 each request has a goroutine of its own that waits for the answer.
- **All commands count.** They are counted as they leave the last stage, in the same way for all. If one is missing the
  run fails; in W6 the missing ones are the figure. There no handler has a recover of its own.
- **Turns.** A round measures each work on each implementation, each time in another order. Each measurement has
  a process of its own, is warmed up with a tenth of the commands, and collects its garbage before the clock starts. The
  fast ones repeat the commands until 0.3 s have passed, Golda and channels 0.5 s, Golda 1 s in works in which its
  metrics are read. Those that a target compares are measured several times a round, one right after the other.
- **Ratios.** A figure is the median of all measurements, with the least and the most beside it. A ratio in a table of
  figures is that of two medians; among the targets it is the median of the ratios of measurements that followed one
  another, for what else the machine does slows both. *between* is where the true median of such ratios lies in 19 of
  20 cases, by the order of the ratios alone; of fewer than six it is the least and the most. A limit that lies there
  may be met or missed by chance. Less is better everywhere. Absolute figures are this machine's, on this day, with
  whatever else it did.
- **Metrics** are read as Prometheus reads them, zipped, by a handler in the same process; the network, and what
  Prometheus does with them, is not in it. One scrape in a second costs less than two measurements of the same thing
  differ by. So there is a line that is read fifty times a second, too: a fiftieth of the difference is what one costs.
- **Golda as it comes.** All defaults: policy, accounts, crash handling, dead letters. Only the numbers of workers are given.
- **W5** counts from when a request should have been sent, so that a wait for the sender counts too. If more than one
  in a hundred is sent more than 10 ms late the run fails: the generator missed its schedule. Most of what is counted
  is that the generator itself is late, for a timer is not exact and the machine has other work; *once sent* counts
  from when the request was sent indeed, and tells the implementations apart.
- **W7** is what heap and stacks have grown by, a second after one command has walked through all stages.

An implementation is one file in [bench](../bench), and a peer is added by adding one. Hollywood, ergo, GoAkt, go-streams and
Bento are not here: the module registry of the machine on which the suite was written did not serve them.

`

const pageFigures = `## Figures

*allocs* are of the whole process. *bound* says what may wait before a stage, *order* what becomes of it.

`

// method says what was run, where and when.
func (s *suite) method() string {
	return fmt.Sprintf("%s on %s, %s, %s, %s, %s/%s; begun at %s.",
		plural(s.rounds, "round"), s.begin.UTC().Format("2006-01-02"), processor(), plural(runtime.GOMAXPROCS(0), "processor"),
		runtime.Version(), runtime.GOOS, runtime.GOARCH, s.begin.UTC().Format("15:04 UTC"))
}

// plural is so many of something; one of it is none.
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// promises is the table of what the implementations guarantee.
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

// processor is the machine's name for its processor.
func processor() string {
	info, _ := os.ReadFile("/proc/cpuinfo") // "" is as good as an error
	for line := range strings.Lines(string(info)) {
		if name, ok := strings.CutPrefix(line, "model name"); ok {
			return strings.TrimLeft(strings.TrimSpace(name), ": \t")
		}
	}
	return runtime.GOARCH
}
