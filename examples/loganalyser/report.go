package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
)

// totals sums up the requests of a host.
type totals struct {
	network  string
	requests int
	bytes    int64
	classes  [6]int // requests by the first digit of the status
}

func (t *totals) add(r record) {
	t.network = r.network
	t.requests++
	t.bytes += r.bytes
	t.classes[r.status/100]++
}

// report is the result of an analysis. Its methods may be called concurrently.
type report struct {
	mu    sync.Mutex // guards the rest
	hosts map[string]totals
	bad   int     // lines that could not be counted
	first []fault // the first of them
}

// fault is a line that could not be counted, and why.
type fault struct {
	line
	err string
}

// listed is how many bad lines a report lists.
const listed = 5

func newReport() *report { return &report{hosts: map[string]totals{}} }

// merge adds totals to the totals of a host.
func (r *report) merge(host string, t totals) {
	r.mu.Lock()
	defer r.mu.Unlock()
	sum := r.hosts[host]
	sum.network = t.network
	sum.requests += t.requests
	sum.bytes += t.bytes
	for class, n := range t.classes {
		sum.classes[class] += n
	}
	r.hosts[host] = sum
}

// reject notes a line that could not be counted.
func (r *report) reject(l line, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bad++
	at, _ := slices.BinarySearchFunc(r.first, l.number, func(f fault, n int) int { return cmp.Compare(f.number, n) })
	if at < listed {
		r.first = slices.Insert(r.first, at, fault{l, err.Error()})
		r.first = r.first[:min(len(r.first), listed)]
	}
}

// sum returns the totals of all hosts.
func (r *report) sum() (all totals) {
	for _, t := range r.hosts {
		all.requests += t.requests
		all.bytes += t.bytes
		for class, n := range t.classes {
			all.classes[class] += n
		}
	}
	return all
}

// write writes the hosts with the most requests, and the bad lines. It returns
// an error unless each of the lines that were read was counted once.
func (r *report) write(w io.Writer, top int, lines int64) error {
	all := r.sum()
	hosts := slices.SortedFunc(maps.Keys(r.hosts), func(a, b string) int {
		return cmp.Or(cmp.Compare(r.hosts[b].requests, r.hosts[a].requests), cmp.Compare(a, b))
	})
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "host\tnetwork\trequests\tMB\t2xx\t3xx\t4xx\t5xx")
	row := func(host string, t totals) {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%d\t%.1f\t%d\t%d\t%d\t%d\n", host, t.network, t.requests, float64(t.bytes)/1e6,
			t.classes[2], t.classes[3], t.classes[4], t.classes[5])
	}
	for _, host := range hosts[:min(top, len(hosts))] {
		row(host, r.hosts[host])
	}
	row(fmt.Sprintf("all %d", len(hosts)), all)
	_ = table.Flush()
	_, _ = fmt.Fprintf(w, "lines: %d, counted: %d, bad: %d\n", lines, all.requests, r.bad)
	for _, f := range r.first {
		_, _ = fmt.Fprintf(w, "  line %d: %s: %.80q\n", f.number, f.err, strings.TrimSpace(f.text))
	}
	if counted := all.requests + r.bad; int64(counted) != lines {
		return fmt.Errorf("%d lines were read, and %d counted", lines, counted)
	}
	return nil
}
