package tables

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
)

//go:embed reported.json
var reportedJSON []byte

// book has the figures of the dissertation: reported.json.
type book struct {
	Source  string `json:"source"`
	Machine struct {
		CPUs  int    `json:"cpus"`
		About string `json:"about"`
	} `json:"machine"`
	Images      int     `json:"images"`
	Requests    int     `json:"requests"`
	Rate        float64 `json:"rate"`        // requests a second
	Capacity    float64 `json:"capacity"`    // replies a second that the server made at most
	Connections int     `json:"connections"` // at which the server accepted no more
	Window      float64 `json:"window"`      // seconds in which replies were counted
	Tables      []table `json:"tables"`
	Claims      []claim `json:"claims"`
	ERLDA       struct {
		Source   string `json:"source"`
		Clients  int    `json:"clients"`
		Seconds  int    `json:"seconds"`
		Path     string `json:"path"`
		Bytes    int    `json:"bytes"`
		Reported string `json:"reported"`
	} `json:"erlda"`
}

// table is a table of the dissertation.
type table struct {
	ID        string   `json:"id"`
	Section   string   `json:"section"`
	Title     string   `json:"title"`
	Figures   []figure `json:"figures"`
	Judged    string   `json:"judged"`    // the figure by which rows are compared
	Better    sense    `json:"better"`    // which of two judged figures is better
	Reference string   `json:"reference"` // the row that others are compared with
	Rows      []row    `json:"rows"`
}

type figure struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Unit string `json:"unit"`
}

type sense string

// row is a configuration with its reported figures.
type row struct {
	ID            string             `json:"id"`
	Policy        string             `json:"policy"` // as the dissertation names it, in English
	Threads       string             `json:"threads"`
	Reported      map[string]float64 `json:"reported"`
	Configuration configuration      `json:"configuration"`
	Reason        string             `json:"reason"` // why our figures differ, or do not
}

// name returns the policy with its threads.
func (r row) name() string { return r.Policy + ", " + r.Threads }

// configuration is how the workers of the stages are arranged.
type configuration struct {
	Policy string `json:"policy"` // of package policy
	Pool   int    `json:"pool"`   // workers that all stages share
	Each   int    `json:"each"`   // or workers of each stage
}

// claim is a sentence of the dissertation about the rows of a table: of the
// figure, each left row is below, equal to or above each right row.
type claim struct {
	Text   string   `json:"text"`
	Table  string   `json:"table"`
	Figure string   `json:"figure"`
	Left   []string `json:"left"`
	Op     relation `json:"op"`
	Right  []string `json:"right"`
	Why    string   `json:"why"`
}

// read returns the reported figures.
func read() (book, error) {
	var b book
	if err := json.Unmarshal(reportedJSON, &b); err != nil {
		return b, fmt.Errorf("reported.json: %w", err)
	}
	return b, b.check()
}

// check returns all faults of the data.
func (b *book) check() (faults error) {
	add := func(wrong bool, format string, args ...any) {
		if wrong {
			faults = errors.Join(faults, fmt.Errorf("reported.json: "+format, args...))
		}
	}
	for i := range b.Tables {
		t := &b.Tables[i]
		add(t.row(t.Reference) == nil, "table %s: no row %q", t.ID, t.Reference)
		for _, r := range t.Rows {
			_, err := r.Configuration.shared(1)
			add(err != nil, "table %s, row %q: %v", t.ID, r.ID, err)
			add((r.Configuration.Pool > 0) == (r.Configuration.Each > 0), "table %s, row %q: either a pool or workers of each stage", t.ID, r.ID)
			add(r.Reason == "", "table %s, row %q: no reason", t.ID, r.ID)
			add(len(r.Reported) != len(t.Figures), "table %s, row %q: %d figures", t.ID, r.ID, len(r.Reported))
			for _, f := range t.Figures {
				_, ok := r.Reported[f.ID]
				add(!ok, "table %s, row %q: no figure %q", t.ID, r.ID, f.ID)
			}
		}
	}
	for _, c := range b.Claims {
		t := b.table(c.Table)
		if t == nil {
			add(true, "claim %q: no table %q", c.Text, c.Table)
			continue
		}
		for _, id := range slices.Concat(c.Left, c.Right) {
			add(t.row(id) == nil, "claim %q: no row %q", c.Text, id)
		}
		add(!slices.ContainsFunc(t.Figures, func(f figure) bool { return f.ID == c.Figure }), "claim %q: no figure %q", c.Text, c.Figure)
		add(!slices.Contains([]relation{below, equal, above}, c.Op), "claim %q: %q", c.Text, c.Op)
	}
	return faults
}

func (b *book) table(id string) *table {
	i := slices.IndexFunc(b.Tables, func(t table) bool { return t.ID == id })
	if i < 0 {
		return nil
	}
	return &b.Tables[i]
}

func (t *table) row(id string) *row {
	i := slices.IndexFunc(t.Rows, func(r row) bool { return r.ID == id })
	if i < 0 {
		return nil
	}
	return &t.Rows[i]
}

// shared returns the policy of a configuration with its number of workers.
// Periods of the policy are so many times as short.
func (c configuration) shared(faster float64) (controller.Policy, error) {
	p, err := policy.ByName(c.Policy)
	if err != nil {
		return nil, err
	}
	switch p := p.(type) {
	case policy.Color:
		p.Workers = c.Pool
		return p, nil
	case policy.Cohort:
		p.Workers = c.Pool
		return p, nil
	case policy.DBR:
		p.Workers = c.Pool
		return p, nil
	case policy.LRB:
		p.Workers = c.Pool
		return p, nil
	case policy.SRPT:
		p.Workers = c.Pool
		return p, nil
	case policy.Stealing:
		p.Interval = faster10(faster)
		return p, nil
	case policy.Fixed:
		return static{c.Each}, nil
	default:
		return nil, fmt.Errorf("policy %q has no number of workers", c.Policy)
	}
}
