package prometheus

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// Dashboard returns a dashboard for a pipeline, as Grafana imports it. It is
// made for the pipeline's graph: stages are listed in the order in which
// commands pass them, and feeds, shared pools and edges have panels if there are
// any. The pipeline need not run. The dashboard asks for its Prometheus, and
// adds up all processes of the pipeline. Dashboard panics if p is nil.
func Dashboard(p Source) []byte {
	s := snapshotOf(p, "Dashboard")
	d := dashboard{
		Title: s.Pipeline, Tags: []string{"golda"}, SchemaVersion: 39, Refresh: "15s", Editable: true,
		Time: map[string]string{"from": "now-1h", "to": "now"},
	}
	d.Templating.List = []variable{
		{Name: "datasource", Type: "datasource", Query: "prometheus"},
		{
			Name: stageLabel, Type: "custom", Query: strings.Join(escaped(inOrder(&s)), ","),
			Multi: true, IncludeAll: true, Current: &option{"All", "$__all"},
		},
	}
	at := grid{selector: "pipeline=" + strconv.Quote(s.Pipeline)}
	d.Panels = at.row("Pipeline", "", wholePanels)
	d.Panels = append(d.Panels, at.row("Stages", "", stagesPanels)...)
	if hasEdges(&s) {
		d.Panels = append(d.Panels, at.row("Edges", "", edgePanels)...)
	}
	if len(s.Feeds) > 0 {
		d.Panels = append(d.Panels, at.row("Feeds", "", feedPanels)...)
	}
	if len(s.Pools) > 0 {
		d.Panels = append(d.Panels, at.row("Shared pools", "", poolPanels)...)
	}
	d.Panels = append(d.Panels, at.row("Stage $stage", stageLabel, stagePanels)...)
	var text bytes.Buffer
	to := json.NewEncoder(&text)
	to.SetEscapeHTML(false)
	to.SetIndent("", "  ")
	if err := to.Encode(d); err != nil {
		panic(err) // a tree of strings and numbers has a text
	}
	return text.Bytes()
}

func hasEdges(s *pipeline.Snapshot) bool {
	for i := range s.Stages {
		if len(s.Stages[i].Edges) > 0 {
			return true
		}
	}
	return false
}

// inOrder returns the names of the stages: each behind the stages that lead to
// it, but for edges that close loops, and otherwise as in the snapshot.
func inOrder(s *pipeline.Snapshot) (names []string) {
	before := map[string]int{} // how many edges lead to a stage that are not followed yet
	for i := range s.Stages {
		for _, e := range s.Stages[i].Edges {
			if !e.Back {
				before[e.To]++
			}
		}
	}
	for range s.Stages {
		i := slices.IndexFunc(s.Stages, func(st stage.Snapshot) bool { return before[st.Name] == 0 && !slices.Contains(names, st.Name) })
		if i < 0 { // a loop without an edge that closes it
			i = slices.IndexFunc(s.Stages, func(st stage.Snapshot) bool { return !slices.Contains(names, st.Name) })
		}
		names = append(names, s.Stages[i].Name)
		for _, e := range s.Stages[i].Edges {
			if !e.Back {
				before[e.To]--
			}
		}
	}
	return names
}

// escaped returns names as a list of options of Grafana has them, where a comma
// separates them.
func escaped(names []string) []string {
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = strings.ReplaceAll(name, ",", `\,`)
	}
	return all
}

// view is a panel: its title, its unit in Grafana's words, its type, and its
// queries with their legends. A $ in a query stands for the selector of the
// pipeline, and $stage for the stage of the row.
type view struct {
	title, unit, kind string
	queries           [][2]string
}

// Types of panels, units and legends, as Grafana names them.
const (
	lines   = "timeseries"
	numbers = "stat"
	heat    = "heatmap"

	plain     = "short"
	perSecond = "ops"
	ratio     = "percentunit"

	byStage = "{{stage}}"
)

//nolint:lll // a query is one line
var wholePanels = []view{
	{"In flight", plain, numbers, [][2]string{{`sum(golda_pipeline_in_flight{$})`, "commands"}}},
	{"Processes", plain, numbers, [][2]string{{`count(golda_pipeline_in_flight{$})`, "processes"}}},
	{"Letters", plain, numbers, [][2]string{{`sum by (store) (golda_letters{$})`, "{{store}}"}}},
	{"Alerts", plain, numbers, [][2]string{{`count(ALERTS{$,alertstate="firing"}) or vector(0)`, "firing"}}},
	{"Accepted and ended", perSecond, lines, [][2]string{
		{`sum(rate(golda_pipeline_accepted_total{$}[$__rate_interval]))`, "accepted"},
		{`sum(rate(golda_pipeline_replied_total{$}[$__rate_interval]))`, "replied"},
		{`sum(rate(golda_pipeline_failed_total{$}[$__rate_interval]))`, "failed"},
		{`sum(rate(golda_pipeline_shed_total{$}[$__rate_interval]))`, "shed"},
		{`sum(rate(golda_pipeline_dead_lettered_total{$}[$__rate_interval]))`, "dead-lettered"},
	}},
	{"Mean time through the pipeline", "s", lines, [][2]string{{`sum(avg_over_time(golda_pipeline_in_flight{$}[$__rate_interval])) / sum(rate(golda_pipeline_replied_total{$}[$__rate_interval]) + rate(golda_pipeline_failed_total{$}[$__rate_interval]) + rate(golda_pipeline_shed_total{$}[$__rate_interval]) + rate(golda_pipeline_dead_lettered_total{$}[$__rate_interval]))`, "mean"}}},
	{"Decisions", perSecond, lines, [][2]string{{`sum by (owner, knob) (rate(golda_decisions_total{$}[$__rate_interval])) > 0`, "{{owner}}: {{knob}}"}}},
	{"Letters that a full store lost", perSecond, lines, [][2]string{{`sum by (store) (rate(golda_letters_dropped_total{$}[$__rate_interval]))`, "{{store}}"}}},
}

//nolint:lll // a query is one line
var stagesPanels = []view{
	{"Handled", perSecond, lines, [][2]string{{`sum by (stage) (rate(golda_stage_ok_total{$}[$__rate_interval]) + rate(golda_stage_forwarded_total{$}[$__rate_interval]) + rate(golda_stage_errors_total{$}[$__rate_interval]))`, byStage}}},
	{"Oldest command in the queue", "s", lines, [][2]string{{`max by (stage) (golda_stage_oldest_wait_seconds{$})`, byStage}}},
	{"Queue, part of the capacity", ratio, lines, [][2]string{{`sum by (stage) (golda_stage_queue_length{$}) / sum by (stage) (golda_stage_queue_capacity{$})`, byStage}}},
	{"Busy, part of the workers' time", ratio, lines, [][2]string{{share("busy"), byStage}}},
	{"Blocked by a next stage, part of the workers' time", ratio, lines, [][2]string{{share("blocked"), byStage}}},
	{"Workers", plain, lines, [][2]string{{`sum by (stage) (golda_stage_workers{$})`, byStage}}},
	{"Time in the handler, 99 of 100", "s", lines, [][2]string{{quantile("service"), byStage}}},
	{"Time in the queue, 99 of 100", "s", lines, [][2]string{{quantile("wait"), byStage}}},
	{"Crashes", perSecond, lines, [][2]string{{`sum by (stage) (rate(golda_stage_crashes_total{$}[$__rate_interval]))`, byStage}}},
	{"Refused, shed and dead-lettered", perSecond, lines, [][2]string{
		{`sum by (stage, reason) (rate(golda_stage_rejected_total{$}[$__rate_interval])) > 0`, "{{stage}} refused: {{reason}}"},
		{`sum by (stage, reason) (rate(golda_stage_shed_total{$}[$__rate_interval])) > 0`, "{{stage}} shed: {{reason}}"},
		{`sum by (stage, reason) (rate(golda_stage_dead_lettered_total{$}[$__rate_interval])) > 0`, "{{stage}} dead-lettered: {{reason}}"},
	}},
}

func share(of string) string {
	const rate = `rate(golda_stage_%_seconds_total{$}[$__rate_interval])`
	part := func(of string) string { return strings.ReplaceAll(rate, "%", of) }
	return `sum by (stage) (` + part(of) + `) / sum by (stage) (` + part("busy") + ` + ` + part("blocked") + ` + ` + part("idle") + `)`
}

func quantile(of string) string {
	return `histogram_quantile(0.99, sum by (stage, le) (rate(golda_stage_` + of + `_seconds_bucket{$}[$__rate_interval])))`
}

//nolint:lll // a query is one line
var edgePanels = []view{
	{"Handed over", perSecond, lines, [][2]string{{`sum by (stage, to, port) (rate(golda_edge_moved_total{$}[$__rate_interval]))`, "{{stage}} → {{to}} {{port}}"}}},
}

var feedPanels = []view{
	{"Submitted and refused", perSecond, lines, [][2]string{
		{`sum by (feed) (rate(golda_feed_submitted_total{$}[$__rate_interval]))`, "{{feed}}"},
		{`sum by (feed) (rate(golda_feed_refused_total{$}[$__rate_interval])) > 0`, "{{feed}} refused"},
	}},
	{"Down, processes", plain, lines, [][2]string{{`sum by (feed) (golda_feed_down{$})`, "{{feed}}"}}},
}

//nolint:lll // a query is one line
var poolPanels = []view{
	{"Workers of shared pools", plain, lines, [][2]string{{`sum by (pool) (golda_pool_workers{$})`, "{{pool}}"}}},
	{"Visits that found nothing", ratio, lines, [][2]string{{`sum by (pool) (rate(golda_pool_empty_visits_total{$}[$__rate_interval])) / sum by (pool) (rate(golda_pool_visits_total{$}[$__rate_interval]))`, "{{pool}}"}}},
}

// stagePanels are repeated for each stage.
//
//nolint:lll // a query is one line
var stagePanels = []view{
	{"Commands here", plain, lines, [][2]string{
		{`sum(golda_stage_queue_length{$,stage="$stage"})`, "queued"},
		{`sum(golda_stage_in_hand{$,stage="$stage"})`, "in hand"},
		{`sum(golda_stage_delayed{$,stage="$stage"})`, "wait for a retry"},
		{`sum(golda_stage_queue_capacity{$,stage="$stage"})`, "capacity"},
	}},
	{"Workers", plain, lines, [][2]string{
		{`sum(golda_stage_workers_busy{$,stage="$stage"})`, "busy"},
		{`sum(golda_stage_workers_blocked{$,stage="$stage"})`, "blocked"},
		{`sum(golda_stage_workers_idle{$,stage="$stage"})`, "idle"},
		{`sum(golda_stage_abandoned{$,stage="$stage"})`, "abandoned handlers"},
		{`sum(golda_stage_workers_max{$,stage="$stage"})`, "most"},
	}},
	{"Time in the queue", "s", heat, [][2]string{{`sum by (le) (rate(golda_stage_wait_seconds_bucket{$,stage="$stage"}[$__rate_interval]))`, "{{le}}"}}},
	{"Time in the handler", "s", heat, [][2]string{{`sum by (le) (rate(golda_stage_service_seconds_bucket{$,stage="$stage"}[$__rate_interval]))`, "{{le}}"}}},
	{"Ends", perSecond, lines, [][2]string{
		{`sum(rate(golda_stage_ok_total{$,stage="$stage"}[$__rate_interval]))`, "result"},
		{`sum(rate(golda_stage_forwarded_total{$,stage="$stage"}[$__rate_interval]))`, "forwarded"},
		{`sum(rate(golda_stage_errors_total{$,stage="$stage"}[$__rate_interval]))`, "error"},
		{`sum(rate(golda_stage_shed_total{$,stage="$stage"}[$__rate_interval]))`, "shed"},
		{`sum(rate(golda_stage_dead_lettered_total{$,stage="$stage"}[$__rate_interval]))`, "dead-lettered"},
	}},
	{"Tries", perSecond, lines, [][2]string{
		{`sum(rate(golda_stage_crashes_total{$,stage="$stage"}[$__rate_interval]))`, "crashes"},
		{`sum(rate(golda_stage_retries_total{$,stage="$stage"}[$__rate_interval]))`, "retries"},
		{`sum(rate(golda_stage_stuck_total{$,stage="$stage"}[$__rate_interval]))`, "stuck handlers"},
	}},
}

// grid places panels, three in a line, and numbers them.
type grid struct {
	selector string
	y, id    int
}

// row returns a row with its panels. A row that is repeated for the values of a
// variable is folded, and has its panels inside.
func (g *grid) row(title, repeat string, views []view) []panel {
	const width, height, across = 8, 8, 3
	head := g.place(panel{Title: title, Type: "row", Repeat: repeat, Collapsed: repeat != ""}, 0, 24, 1)
	g.y++
	all := make([]panel, 0, len(views))
	for i, v := range views {
		all = append(all, g.place(v.panel(g.selector), i%across*width, width, height))
		if i%across == across-1 || i == len(views)-1 {
			g.y += height
		}
	}
	if head.Collapsed {
		head.Panels = all
		return []panel{head}
	}
	return append([]panel{head}, all...)
}

func (g *grid) place(p panel, x, w, h int) panel {
	g.id++
	p.ID, p.GridPos = g.id, position{X: x, Y: g.y, W: w, H: h}
	return p
}

func (v *view) panel(selector string) panel {
	p := panel{Title: v.title, Type: v.kind, Datasource: &datasource{"prometheus", "${datasource}"}}
	p.FieldConfig = &fieldConfig{}
	p.FieldConfig.Defaults.Unit = v.unit
	for i, q := range v.queries {
		t := target{RefID: string(rune('A' + i)), Expr: strings.ReplaceAll(q[0], "{$", "{"+selector), Legend: q[1]}
		if v.kind == heat {
			t.Format = heat
		}
		p.Targets = append(p.Targets, t)
	}
	return p
}

// The parts of a dashboard that Grafana reads, with its names.
//
//nolint:tagliatelle // the names are Grafana's
type (
	dashboard struct {
		Title         string            `json:"title"`
		Tags          []string          `json:"tags"`
		SchemaVersion int               `json:"schemaVersion"`
		Refresh       string            `json:"refresh"`
		Editable      bool              `json:"editable"`
		Time          map[string]string `json:"time"`
		Templating    struct {
			List []variable `json:"list"`
		} `json:"templating"`
		Panels []panel `json:"panels"`
	}
	variable struct {
		Name       string  `json:"name"`
		Type       string  `json:"type"`
		Query      string  `json:"query"`
		Multi      bool    `json:"multi,omitempty"`
		IncludeAll bool    `json:"includeAll,omitempty"`
		Current    *option `json:"current,omitempty"`
	}
	option struct {
		Text  string `json:"text"`
		Value string `json:"value"`
	}
	panel struct {
		ID          int          `json:"id"`
		Title       string       `json:"title"`
		Type        string       `json:"type"`
		GridPos     position     `json:"gridPos"`
		Datasource  *datasource  `json:"datasource,omitempty"`
		FieldConfig *fieldConfig `json:"fieldConfig,omitempty"`
		Targets     []target     `json:"targets,omitempty"`
		Repeat      string       `json:"repeat,omitempty"`
		Collapsed   bool         `json:"collapsed,omitempty"`
		Panels      []panel      `json:"panels,omitempty"`
	}
	position struct {
		X int `json:"x"`
		Y int `json:"y"`
		W int `json:"w"`
		H int `json:"h"`
	}
	datasource struct {
		Type string `json:"type"`
		UID  string `json:"uid"`
	}
	fieldConfig struct {
		Defaults struct {
			Unit string `json:"unit"`
		} `json:"defaults"`
	}
	target struct {
		RefID  string `json:"refId"`
		Expr   string `json:"expr"`
		Legend string `json:"legendFormat"`
		Format string `json:"format,omitempty"`
	}
)
