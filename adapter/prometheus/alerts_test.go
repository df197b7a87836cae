package prometheus_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	goldaprom "github.com/golda-dev/golda/adapter/prometheus"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/letters"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/overflow"
)

// promtool runs promtool, and returns its output. Without promtool the test is
// skipped, or fails if GOLDA_BROKERS is "required".
func promtool(t *testing.T, input []byte, args ...string) (output string, err error) {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		require.NotEqual(t, "required", os.Getenv("GOLDA_BROKERS"), "there is no promtool, and GOLDA_BROKERS is required: apt-get install prometheus")
		t.Skip("there is no promtool: apt-get install prometheus")
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), path, args...)
	cmd.Stdin = bytes.NewReader(input)
	text, err := cmd.CombinedOutput()
	return string(text), err
}

func TestPromtoolFindsNothingInTheMetrics(t *testing.T) {
	var text bytes.Buffer
	for _, family := range gather(t, goldaprom.NewCollector(written())) {
		_, err := expfmt.MetricFamilyToText(&text, family)
		require.NoError(t, err)
	}
	output, err := promtool(t, text.Bytes(), "check", "metrics")
	require.NoError(t, err, output)
	assert.Empty(t, output)
}

func TestPromtoolReadsTheRulesOfHostileNames(t *testing.T) {
	for _, name := range []string{"images", `a"b\c`, "two\nlines", "it's: {a} # mess", "{{ .Bad }}"} {
		s := written()
		s.Pipeline = name
		file := filepath.Join(t.TempDir(), "rules.yaml")
		require.NoError(t, os.WriteFile(file, goldaprom.Alerts{}.Rules(s), 0o644))
		output, err := promtool(t, nil, "check", "rules", file)
		assert.NoError(t, err, output)
		assert.Contains(t, output, "14 rules found")
	}
}

// Each query is a recording rule, because promtool reads rules.
func TestPromtoolReadsTheQueriesOfTheDashboard(t *testing.T) {
	var rules strings.Builder
	rules.WriteString("groups: [{name: g, rules: [\n")
	for i, query := range queries(t, goldaprom.Dashboard(written())) {
		query = strings.NewReplacer("$__rate_interval", "5m", "$stage", "load").Replace(query)
		fmt.Fprintf(&rules, "{record: 'query:%d', expr: %q},\n", i, query)
	}
	rules.WriteString("]}]\n")
	file := filepath.Join(t.TempDir(), "rules.yaml")
	require.NoError(t, os.WriteFile(file, []byte(rules.String()), 0o644))
	output, err := promtool(t, nil, "check", "rules", file)
	require.NoError(t, err, output)
}

var name = regexp.MustCompile(`\bgolda_\w+`)

func TestRulesAndDashboardsUseOnlyMetricsThatAreExported(t *testing.T) {
	exported := map[string]bool{}
	for _, desc := range described(written()) {
		n := name.FindString(desc)
		exported[n], exported[n+"_bucket"] = true, true
	}
	texts := append(queries(t, goldaprom.Dashboard(written())), string(goldaprom.Alerts{}.Rules(written())))
	for _, text := range texts {
		for _, n := range name.FindAllString(text, -1) {
			assert.Contains(t, exported, n)
		}
	}
}

// described returns the descriptions of all metrics of a collector, as texts.
func described(p goldaprom.Source) (all []string) {
	out := make(chan *prometheus.Desc, 1000)
	goldaprom.NewCollector(p).Describe(out)
	close(out)
	for desc := range out {
		all = append(all, desc.String())
	}
	return all
}

// panelOf has the members of a panel that the tests read.
type panelOf struct {
	ID      int
	Title   string
	GridPos struct{ X, Y, W, H int }
	Targets []struct{ Expr string }
	Panels  []panelOf
}

func panels(t *testing.T, text []byte) (all []panelOf) {
	t.Helper()
	var read struct{ Panels []panelOf }
	require.NoError(t, json.Unmarshal(text, &read)) //nolint:musttag // JSON ignores case
	for _, p := range read.Panels {
		all = append(append(all, p), p.Panels...)
	}
	return all
}

func queries(t *testing.T, text []byte) (all []string) {
	t.Helper()
	for _, p := range panels(t, text) {
		for _, target := range p.Targets {
			all = append(all, target.Expr)
		}
	}
	require.NotEmpty(t, all)
	return all
}

func TestNoPanelsOfADashboardOverlap(t *testing.T) {
	all := panels(t, goldaprom.Dashboard(written()))
	for i, a := range all {
		for _, b := range all[:i] {
			p, q := a.GridPos, b.GridPos
			apart := p.X >= q.X+q.W || q.X >= p.X+p.W || p.Y >= q.Y+q.H || q.Y >= p.Y+p.H
			assert.True(t, apart, "%s and %s", a.Title, b.Title)
			assert.NotEqual(t, a.ID, b.ID)
		}
	}
}

func TestADashboardListsTheStagesInTheOrderOfTheGraph(t *testing.T) {
	for _, test := range []struct {
		stages []string
		edges  [][2]string
		back   [][2]string
		want   string
	}{
		{[]string{"a", "b", "c"}, nil, nil, "a,b,c"},
		{[]string{"save", "price", "take"}, [][2]string{{"take", "price"}, {"price", "save"}}, nil, "take,price,save"},
		{[]string{"c", "b", "a"}, [][2]string{{"a", "b"}, {"b", "c"}}, [][2]string{{"c", "a"}}, "a,b,c"},
		{[]string{"d", "c", "b", "a"}, [][2]string{{"a", "b"}, {"a", "c"}, {"b", "d"}, {"c", "d"}}, nil, "a,c,b,d"},
		{[]string{"a", "b"}, [][2]string{{"a", "b"}, {"b", "a"}}, nil, "a,b"}, // no edge is known to close the loop
		{[]string{"a", "b, c"}, nil, nil, `a,b\, c`},
	} {
		var s still
		for _, n := range test.stages {
			st := stage.Snapshot{Name: n}
			add := func(all [][2]string, back bool) {
				for _, e := range all {
					if e[0] == n {
						st.Edges = append(st.Edges, struct {
							To, Port string
							Back     bool
							Moved    uint64
						}{To: e[1], Back: back})
					}
				}
			}
			add(test.edges, false)
			add(test.back, true)
			s.Stages = append(s.Stages, st)
		}
		var read struct {
			Templating struct {
				List []struct{ Name, Query string }
			}
		}
		require.NoError(t, json.Unmarshal(goldaprom.Dashboard(s), &read)) //nolint:musttag // JSON ignores case
		assert.Equal(t, test.want, read.Templating.List[1].Query)
	}
}

func TestRulesAndDashboardsOfNoPipelineSaySo(t *testing.T) {
	require.PanicsWithValue(t, "prometheus: Rules: the pipeline is nil", func() { goldaprom.Alerts{}.Rules(nil) })
	require.PanicsWithValue(t, "prometheus: Dashboard: the pipeline is nil", func() { goldaprom.Dashboard(nil) })
}

// shop is the pipeline of the examples in docs/metrics.
func shop(t testing.TB) *pipeline.Pipeline {
	t.Helper()
	save := stage.Sink("save", func(context.Context, int) error { return nil })
	price := stage.Map("price", func(_ context.Context, order int) (int, error) { return order, nil })
	p, err := pipeline.New("shop", price.To(save), save,
		pipeline.Feed("orders", price, source.Slice([]int{1, 2, 3})))
	require.NoError(t, err)
	return p
}

// Run go test ./adapter/prometheus -rewrite to write the files.
func TestTheExamplesInTheDocumentsAreWrittenByTheFunctions(t *testing.T) {
	p := shop(t)
	for file, want := range map[string][]byte{
		"../../docs/metrics/alerts.yaml":    goldaprom.Alerts{}.Rules(p),
		"../../docs/metrics/dashboard.json": goldaprom.Dashboard(p),
	} {
		if *rewrite {
			require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
			require.NoError(t, os.WriteFile(file, want, 0o644))
		}
		got, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.Equal(t, string(want), string(got), file)
	}
}

const period = 15 * time.Second // between two scrapes

// recording has the values of each series at each scrape.
type recording struct {
	scrapes int
	series  map[string][]string
}

func (r *recording) scrape(t *testing.T, from prometheus.Gatherer) {
	families, err := from.Gather()
	require.NoError(t, err)
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if m.GetHistogram() != nil {
				continue
			}
			key := seriesOf(family.GetName(), m)
			values := r.series[key]
			for len(values) < r.scrapes {
				values = append(values, "_")
			}
			value := m.GetCounter().GetValue() + m.GetGauge().GetValue()
			r.series[key] = append(values, strconv.FormatFloat(value, 'g', -1, 64))
		}
	}
	r.scrapes++
}

func seriesOf(name string, m *dto.Metric) string {
	var labels []string
	for _, l := range m.GetLabel() {
		labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
	}
	return name + "{" + strings.Join(labels, ",") + "}"
}

// ofRules is the test that promtool runs: the recording, and the alerts that
// must be firing at each time.
func (r *recording) ofRules(rules string, want map[time.Duration][]string) []byte {
	var text strings.Builder
	fmt.Fprintf(&text, "rule_files: [%q]\nevaluation_interval: 15s\ntests:\n  - interval: %s\n    input_series:\n", rules, period)
	for series, values := range r.series {
		fmt.Fprintf(&text, "      - {series: %q, values: %q}\n", series, strings.Join(values, " "))
	}
	text.WriteString("    promql_expr_test:\n")
	for at, alerts := range want {
		fmt.Fprintf(&text, "      - expr: count by (alertname, stage, feed, store) (ALERTS{alertstate=\"firing\"})\n        eval_time: %s\n        exp_samples:\n", at)
		for _, alert := range alerts {
			name, of, _ := strings.Cut(alert, " ")
			label, value, _ := strings.Cut(of, "=")
			fmt.Fprintf(&text, "          - {labels: '{alertname=%q,%s=%q}', value: 1}\n", name, label, value)
		}
	}
	return []byte(text.String())
}

var errAway = errors.New("the broker is away")

// outage is a fault of a pipeline from minute 10 to minute 45 of its run. A command arrives each second.
type outage struct {
	opts   []stage.Option                         // of the stage save
	broken func(ctx context.Context, n int) error // the handler of save; ctx ends with the outage
	parts  []pipeline.Part                        // further parts of the pipeline
	away   bool                                   // the source of the feed says so
	begin  func(p *pipeline.Pipeline, s saves) error
	repair func(p *pipeline.Pipeline, s saves) error
}

type saves = *stage.Flow[int, struct{}]

// hang blocks until the outage is over. The handler ignores the end of its own
// context.
func hang(outage context.Context, _ int) error {
	<-outage.Done()
	return nil
}

// record runs the pipeline in virtual time, and scrapes it.
func (o *outage) record(t *testing.T, r *recording) (rules []byte) {
	synctest.Test(t, func(t *testing.T) {
		during, over := context.WithCancel(t.Context())
		defer over()
		var broken atomic.Bool
		save := stage.Sink("save", func(_ context.Context, n int) error {
			if broken.Load() && o.broken != nil {
				return o.broken(during, n)
			}
			return nil
		}, append([]stage.Option{stage.Defaults(stage.Workers(1, 1)), stage.Capacity(16)}, o.opts...)...)
		price := stage.Map("price", func(_ context.Context, n int) (int, error) { return n, nil }, stage.Capacity(16), stage.Workers(1, 1))
		orders := pipeline.Feed("orders", price, func(ctx context.Context, _ func(int) error) error {
			for ctx.Err() == nil {
				var err error
				if o.away && broken.Load() {
					err = errAway
				}
				source.SetAway(ctx, err)
				select {
				case <-ctx.Done():
				case <-time.After(time.Second):
				}
			}
			return nil
		})
		quiet := pipeline.Logger(slog.New(slog.DiscardHandler))
		p, err := pipeline.New("shop", append([]pipeline.Part{price.To(save), save, quiet, orders}, o.parts...)...)
		require.NoError(t, err)
		require.NoError(t, p.Start(t.Context()))
		registry := prometheus.NewRegistry()
		require.NoError(t, registry.Register(goldaprom.NewCollector(p)))
		rules = goldaprom.Alerts{}.Rules(p)

		ctx, stop := context.WithCancel(t.Context())
		var customers sync.WaitGroup
		customers.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				_ = price.Submit(ctx, n)
				time.Sleep(time.Second)
			}
		})
		act := func(do func(*pipeline.Pipeline, saves) error) {
			if do != nil {
				require.NoError(t, do(p, save))
			}
		}
		for at := time.Duration(0); at <= 70*time.Minute; at += period {
			if at == 10*time.Minute {
				broken.Store(true)
				act(o.begin)
			}
			if at == 45*time.Minute {
				broken.Store(false)
				over()
				act(o.repair)
			}
			r.scrape(t, registry)
			time.Sleep(period)
		}
		stop()
		require.NoError(t, p.Stop(context.WithoutCancel(t.Context())))
		customers.Wait()
	})
	return rules
}

// An outage is recorded, scrape for scrape, and promtool evaluates the rules on
// the recording. The short tests have three outages.
func TestTheRulesReportARecordedOutageAndNothingElse(t *testing.T) {
	const before, soon, late, after = 9 * time.Minute, 13 * time.Minute, 44 * time.Minute, 70 * time.Minute
	for i, test := range []struct {
		name   string
		outage outage
		soon   []string // the alerts that are there three minutes after the begin
		late   []string // and at the end
	}{
		{
			name: "none",
		},
		{
			name:   "a handler hangs, and the stage has no timeout",
			outage: outage{broken: hang},
			soon:   []string{"GoldaCommandsWait stage=save"},
			late:   []string{"GoldaBottleneck stage=save", "GoldaCommandsWait stage=save", "GoldaStageBlocked stage=price", "GoldaStageStuck stage=save"},
		},
		{
			name: "handlers hang, and are given up",
			outage: outage{
				broken: hang,
				opts:   []stage.Option{stage.Timeout(time.Minute), stage.Grace(time.Second)},
			},
			soon: []string{"GoldaDeadLetters stage=save", "GoldaHandlersStuck stage=save"},
			late: []string{
				"GoldaCommandsWait stage=save", "GoldaCrashes stage=save", "GoldaDeadLetters stage=save",
				"GoldaHandlersAbandoned stage=save", "GoldaHandlersStuck stage=save", "GoldaStageBlocked stage=price",
			},
		},
		{
			name: "one command in ten crashes",
			outage: outage{
				broken: func(_ context.Context, n int) error {
					if n%10 == 0 {
						panic("a bad order")
					}
					return nil
				},
				parts: []pipeline.Part{pipeline.KeepLetters(letters.Options{Most: 100})},
			},
			soon: []string{"GoldaCrashes stage=save", "GoldaDeadLetters stage=save"},
			late: []string{"GoldaCrashes stage=save", "GoldaDeadLetters stage=save", "GoldaLettersDropped store=quarantine"},
		},
		{
			name: "an overload",
			outage: outage{
				broken: func(context.Context, int) error { time.Sleep(3 * time.Second); return nil },
				opts:   []stage.Option{stage.Overflow(overflow.DropNewest)},
			},
			late: []string{"GoldaBottleneck stage=save", "GoldaLettersDropped store=dead_letters", "GoldaOverload stage=save"},
		},
		{
			name: "an operator pauses a stage",
			outage: outage{
				begin:  func(p *pipeline.Pipeline, s saves) error { return p.Pause(s) },
				repair: func(p *pipeline.Pipeline, s saves) error { return p.Resume(s) },
			},
			late: []string{"GoldaStageBlocked stage=price", "GoldaStagePaused stage=save"},
		},
		{
			name:   "a broker is away",
			outage: outage{away: true},
			late:   []string{"GoldaFeedDown feed=orders"},
		},
		{
			name: "a drain waits for a handler that hangs",
			outage: outage{
				broken: hang,
				begin: func(p *pipeline.Pipeline, s saves) error {
					time.Sleep(2 * time.Second)
					go func() { _ = p.Drain(context.Background(), s) }()
					return nil
				},
				repair: func(p *pipeline.Pipeline, s saves) error {
					time.Sleep(time.Second)
					return p.Reopen(s)
				},
			},
			soon: []string{"GoldaCommandsWait stage=save"},
			late: []string{"GoldaCommandsWait stage=save", "GoldaDrainStuck stage=save", "GoldaStageBlocked stage=price", "GoldaStageStuck stage=save"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			if i > 2 && testing.Short() {
				t.Skip("further outages")
			}
			r := &recording{series: map[string][]string{}}
			dir := t.TempDir()
			rules, file := filepath.Join(dir, "rules.yaml"), filepath.Join(dir, "test.yaml")
			require.NoError(t, os.WriteFile(rules, test.outage.record(t, r), 0o644))
			firing := map[time.Duration][]string{before: nil, soon: test.soon, late: test.late, after: nil}
			require.NoError(t, os.WriteFile(file, r.ofRules(rules, firing), 0o644))
			output, err := promtool(t, nil, "test", "rules", file)
			assert.NoError(t, err, output)
		})
	}
}
