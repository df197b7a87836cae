package fleet

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
)

// String returns the snapshot as two tables for people: the processes with
// their stages, and after each stage its workers; and the inlets.
func (s Snapshot) String() string {
	var b bytes.Buffer
	_, _ = fmt.Fprintf(&b, "pipeline %s\n\n", s.Pipeline)
	w := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0) // a buffer takes all
	_, _ = fmt.Fprintln(w, "PROCESS\tHOST\tPID\tSTATE\tSTAGES AND WORKERS")
	for i := range s.Processes {
		p := &s.Processes[i]
		_, _ = fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\n", oneLine(p.Name), oneLine(p.Host), p.PID, p.condition(s.At), p.workers())
	}
	_, _ = fmt.Fprintln(w)
	_, _ = fmt.Fprintln(w, "INLET\tSTAGE\tPENDING\tIN FLIGHT\tOLDEST\tDEAD\tDONE/S\tWORKERS\tWANTED\tPROCESSES\tWANTED\tBOTTLENECK")
	for _, i := range s.Inlets {
		_, _ = fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%s\t%d\t%.0f\t%d\t%d\t%d\t%d\t%s\n", i.Name, orNone(i.Stage), i.Pending, i.InFlight,
			brief(i.Age), i.DeadLettered, i.Rate, i.Workers, i.WantedWorkers, i.Processes, i.WantedProcesses, orNone(i.Bottleneck))
	}
	_ = w.Flush()
	lines := strings.SplitAfter(b.String(), "\n")
	for i, line := range lines {
		if text, ended := strings.CutSuffix(line, "\n"); ended {
			lines[i] = strings.TrimRight(text, " ") + "\n"
		}
	}
	return strings.Map(printable, strings.Join(lines, ""))
}

// printable replaces what a terminal would obey: names come from other
// processes.
func printable(r rune) rune {
	if unicode.IsPrint(r) || r == '\n' {
		return r
	}
	return '?'
}

// condition returns the state of a process, and for how long.
func (p *Process) condition(now time.Time) string {
	switch {
	case p.State == Alive && p.Err != nil:
		return "alive, not readable"
	case p.State == Alive:
		return "alive"
	default:
		return fmt.Sprintf("%s for %s", p.State, brief(now.Sub(p.Heard)))
	}
}

// workers lists the stages of a process with their workers; without these if
// they are not known now.
func (p *Process) workers() string {
	if p.State != Alive || p.Err != nil {
		return oneLine(strings.Join(p.Stages, ", "))
	}
	var all []string
	for i := range p.Snapshot.Stages {
		st := &p.Snapshot.Stages[i]
		if st.Process != "" {
			continue
		}
		workers := strconv.Itoa(st.Workers.Live)
		if st.Pool != st.Name {
			workers = "of " + st.Pool
		}
		all = append(all, st.Name+" "+workers)
	}
	return oneLine(strings.Join(all, ", "))
}

// oneLine keeps a name in its cell.
func oneLine(name string) string {
	return strings.NewReplacer("\n", "?", "\t", "?", "\v", "?", "\f", "?").Replace(name)
}

func orNone(name string) string {
	if name == "" {
		return "-"
	}
	return name
}

// brief returns a duration for people.
func brief(d time.Duration) string {
	switch {
	case d <= 0:
		return "-"
	case d < 10*time.Second:
		return d.Round(10 * time.Millisecond).String()
	default:
		return d.Round(time.Second).String()
	}
}
