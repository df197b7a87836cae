package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/golda-dev/golda/adapter/dashboard/api"
)

type topCommand struct {
	observed

	From  string        `arg:"" optional:"" help:"URL of a dashboard, or file of a recording."`
	Once  bool          `help:"Print one table and end."`
	JSON  bool          `name:"json" help:"Print JSON, one object for each table."`
	Every time.Duration `default:"1s" help:"Between two tables, and the interval of the rates."`

	fleet bool
}

// table is one output of golda top.
type table struct {
	At       time.Time   `json:"at"`
	Pipeline string      `json:"pipeline"`
	Policy   string      `json:"policy"`
	InFlight uint64      `json:"inFlight"`
	Letters  int         `json:"letters"`
	Verdict  api.Verdict `json:"verdict"`
	Stages   []row       `json:"stages"`
	Fleet    *api.Fleet  `json:"fleet,omitempty"` // if the numbers are sums over processes
}

// row is a stage in the interval of a table. The times are of the interval if
// the snapshots have buckets, else since the start.
type row struct {
	Stage        string  `json:"stage"`
	State        string  `json:"state"` // paused, draining, or nothing
	Active       int     `json:"active"`
	Workers      int     `json:"workers"`
	Most         int     `json:"most"`
	Pending      int     `json:"pending"`
	Capacity     int     `json:"capacity"`
	Blocked      int     `json:"blocked"`
	PerSecond    float64 `json:"perSecond"` // handled
	WaitP99Ns    int64   `json:"waitP99Ns"`
	ServiceP99Ns int64   `json:"serviceP99Ns"`
	Errors       uint64  `json:"errors"` // errors and crashes, since the start
	ParkedKeys   int     `json:"parkedKeys"`
}

// Run prints tables.
func (c *topCommand) Run(s *session) error {
	switch {
	case c.NATS != "":
		d, leave, err := c.watch(s)
		if err != nil {
			return err
		}
		defer leave()
		url, end, err := within(s, d)
		if err != nil {
			return err
		}
		defer end()
		c.From = url
	case c.From == "":
		return errors.New("name the URL of a dashboard, a file, or the servers of a fleet with -nats")
	case !isURL(c.From):
		return c.recorded(s)
	}
	c.Every = max(c.Every, 100*time.Millisecond)
	client := s.client(c.From)
	var root api.Root
	if err := client.Get(s.ctx, "", &root); err != nil {
		return err
	}
	c.fleet = root.Fleet
	var earlier api.Snapshot
	if err := client.Get(s.ctx, "/snapshot", &earlier); err != nil {
		return err
	}
	// A stream that is open has the dashboard take the snapshots that a verdict needs.
	stream, err := client.Open(s.ctx, "/events")
	if err != nil {
		return err
	}
	defer stream.Close()
	go func() { _, _ = io.Copy(io.Discard, stream) }()
	for {
		select {
		case <-time.After(c.Every):
		case <-s.ctx.Done():
			return nil
		}
		later, t, err := c.next(s, client, &earlier)
		if err != nil {
			return err
		}
		if err := c.print(s, t); err != nil || c.Once {
			return err
		}
		earlier = later
	}
}

func isURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https")
}

// next asks for a table.
func (c *topCommand) next(s *session, client *api.Client, earlier *api.Snapshot) (later api.Snapshot, t table, err error) {
	if err = client.Get(s.ctx, "/snapshot", &later); err != nil {
		return later, t, err
	}
	t = tableOf(earlier, &later)
	var v api.Verdicts
	if err = client.Get(s.ctx, "/verdict", &v); err != nil {
		return later, t, err
	}
	var f api.Failures
	err = client.Get(s.ctx, "/failures", &f)
	t.Verdict, t.Letters = v.Now, kept(f)
	if err == nil && c.fleet {
		t.Fleet = &api.Fleet{}
		err = client.Get(s.ctx, "/processes", t.Fleet)
	}
	return later, t, err
}

func kept(f api.Failures) (n int) {
	for _, g := range f.Groups {
		n += g.Kept
	}
	return n
}

// recorded prints the table of the end of a recording.
func (c *topCommand) recorded(s *session) error {
	r, err := readRecording(c.From)
	if err != nil {
		return err
	}
	all := r.History.Snapshots
	if len(all) == 0 {
		return fmt.Errorf("%s has no snapshot", c.From)
	}
	later := &all[len(all)-1]
	earlier := &all[max(len(all)-2, 0)]
	t := tableOf(earlier, later)
	t.Verdict, t.Letters = r.Verdicts.Now, kept(r.Failures)
	if r.Root.Fleet {
		t.Fleet = r.Processes
	}
	return c.print(s, t)
}

func readRecording(file string) (r api.Recording, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return r, err
	}
	if err = json.Unmarshal(text, &r); err != nil || r.Root.Version == 0 {
		return r, fmt.Errorf("%s is no recording of golda: %w", file, err)
	}
	return r, nil
}

func tableOf(earlier, later *api.Snapshot) table {
	t := table{At: later.At, Pipeline: later.Pipeline, Policy: later.Policy, InFlight: later.InFlight, Stages: []row{}}
	seconds := later.At.Sub(earlier.At).Seconds()
	for _, name := range later.Order {
		st, old := later.Stages[name], earlier.Stages[name]
		r := row{
			Stage: name, Active: st.Workers.Busy, Workers: st.Workers.Live, Most: st.Workers.Most, Pending: st.Queue.Length,
			Capacity: st.Queue.Capacity, Blocked: st.Workers.Blocked, Errors: st.Counts.Errors + st.Counts.Crashes,
			WaitP99Ns: p99(old.Wait, st.Wait), ServiceP99Ns: p99(old.Service, st.Service),
			ParkedKeys: st.Queue.ParkedKeys,
		}
		switch {
		case st.Paused:
			r.State = "paused"
		case st.Draining:
			r.State = "draining"
		}
		if seconds > 0 {
			r.PerSecond = float64(handled(&st.Counts)-handled(&old.Counts)) / seconds
		}
		t.Stages = append(t.Stages, r)
	}
	return t
}

func handled(c *api.Counts) uint64 { return c.OK + c.Forwarded + c.Errors }

// p99 returns the 99th percentile of the samples between two histograms, or of
// the later one if there are none or they are not known.
func p99(earlier, later api.Durations) int64 {
	before := map[int64]uint64{}
	for _, b := range earlier.Buckets {
		before[b.UpToNs] = b.Count
	}
	count := later.Count - earlier.Count
	if count == 0 || count > later.Count || len(earlier.Buckets) == 0 && earlier.Count > 0 || len(later.Buckets) == 0 {
		return later.P99Ns
	}
	rank := max(1, uint64(0.99*float64(count)+0.5))
	for _, b := range later.Buckets {
		n := b.Count - before[b.UpToNs]
		if n >= rank {
			return b.UpToNs
		}
		rank -= n
	}
	return later.P99Ns
}

// clearScreen moves a terminal's cursor home and clears the screen.
const clearScreen = "\x1b[H\x1b[2J"

func (c *topCommand) print(s *session, t table) error {
	if c.JSON {
		return json.NewEncoder(s.out).Encode(t)
	}
	var text strings.Builder
	if !c.Once && isURL(c.From) {
		text.WriteString(clearScreen)
	}
	fmt.Fprintf(&text, "%s  policy %s  %s  in flight %d  letters %d\n%s\n\n", plain(t.Pipeline), plain(t.Policy), t.At.Format(time.TimeOnly),
		t.InFlight, t.Letters, plain(t.Verdict.Text))
	if t.Fleet != nil {
		writeFleet(&text, t.Fleet)
	}
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	parked := slices.ContainsFunc(t.Stages, func(r row) bool { return r.ParkedKeys > 0 })
	head := "stage\tactive\tworkers\tpending\tblocked\tdone/s\twait p99\tservice p99\terrors\t"
	if parked {
		head += "parked keys\t"
	}
	fmt.Fprintln(w, head)
	for _, r := range t.Stages {
		name := plain(r.Stage)
		if r.State != "" {
			name += " (" + r.State + ")"
		}
		fmt.Fprintf(w, "%s\t%d\t%d/%d\t%d/%d\t%d\t%.1f\t%v\t%v\t%d\t", name, r.Active, r.Workers, r.Most, r.Pending, r.Capacity, r.Blocked,
			r.PerSecond, short(r.WaitP99Ns), short(r.ServiceP99Ns), r.Errors)
		if parked {
			fmt.Fprintf(w, "%d\t", r.ParkedKeys)
		}
		fmt.Fprintln(w)
	}
	_ = w.Flush()
	_, err := io.WriteString(s.out, text.String())
	return err
}

// short returns a duration with three digits.
func short(ns int64) time.Duration {
	d := time.Duration(ns)
	for unit := time.Duration(1); ; unit *= 10 {
		if d < 1000*unit {
			return d.Round(unit)
		}
	}
}

// plain returns a text for a terminal: names and errors may have control
// characters, which a terminal would obey.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return '?'
		}
		return r
	}, text)
}
