package prometheus

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"github.com/golda-dev/golda/pipeline"
)

// Alerts are the bounds beyond which a pipeline needs an operator. A field that
// is zero means its default.
type Alerts struct {
	// Wait is how long the oldest command of a stage may wait in the queue; a
	// minute.
	Wait time.Duration
	// Stall is how long the workers of a stage may be busy while no command
	// ends there, how long a drain may take, and how long a stage may limit
	// the pipeline; ten minutes, and at least five. It must be longer than the
	// longest handler.
	Stall time.Duration
	// Pause is how long a stage may be paused; half an hour.
	Pause time.Duration
	// Crashes is the share of a stage's tries that may crash; 0.01.
	Crashes float64
	// Refusals is the share of a stage's commands that may be refused or shed;
	// 0.05.
	Refusals float64
}

// Rules returns alert rules for a pipeline, as a rule file of Prometheus. They
// are made for its graph: rules of feeds are there if it has feeds. The pipeline
// need not run. The rules watch each process of the pipeline by itself, with the
// labels that its scrape adds, such as instance.
//
// Each rule has the label severity: critical, if commands are not handled,
// warning, or info. Rules panics if p is nil.
func (a Alerts) Rules(p Source) []byte {
	s := snapshotOf(p, "Rules")
	a.Wait = cmp.Or(a.Wait, time.Minute)
	a.Stall = max(cmp.Or(a.Stall, 10*time.Minute), 5*time.Minute)
	a.Pause = cmp.Or(a.Pause, 30*time.Minute)
	a.Crashes = cmp.Or(a.Crashes, 0.01)
	a.Refusals = cmp.Or(a.Refusals, 0.05)

	var text strings.Builder
	text.WriteString("# Written by Alerts.Rules of github.com/golda-dev/golda/adapter/prometheus.\n")
	fmt.Fprintf(&text, "groups:\n  - name: %s\n    rules:\n", quoted("golda "+s.Pipeline))
	for _, r := range a.rules() {
		if r.of == nil || r.of(&s) {
			r.write(&text, s.Pipeline)
		}
	}
	return []byte(text.String())
}

// rule is an alert rule for a pipeline, or for each of its stages, feeds or
// stores.
type rule struct {
	name     string
	expr     string        // each $ stands for the selector of the pipeline, without braces
	after    time.Duration // how long expr must have held
	severity string
	summary  string // a template of Prometheus
	remedy   string
	of       func(*pipeline.Snapshot) bool // which pipelines have the rule; nil for all
}

func (r *rule) write(text *strings.Builder, name string) {
	expr := strings.ReplaceAll(r.expr, "$", "pipeline="+strconv.Quote(name))
	fmt.Fprintf(text, "      - alert: %s\n        expr: |\n          %s\n", r.name, strings.ReplaceAll(expr, "\n", "\n          "))
	if r.after > 0 {
		fmt.Fprintf(text, "        for: %s\n", model.Duration(r.after))
	}
	fmt.Fprintf(text, "        labels:\n          severity: %s\n        annotations:\n          summary: %s\n          description: %s\n",
		r.severity, quoted(r.summary), quoted(r.remedy))
}

// quoted returns a string in the syntax of JSON, which YAML reads.
func quoted(s string) string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string has a text
	}
	return string(text)
}

// ends are the tries of a stage that ended, by a second.
//
//nolint:lll // a query is one line
const ends = `rate(golda_stage_ok_total{$}[5m]) + rate(golda_stage_forwarded_total{$}[5m]) + rate(golda_stage_errors_total{$}[5m]) + rate(golda_stage_crashes_total{$}[5m])`

// workerTime is all the time of a stage's workers.
//
//nolint:lll // a query is one line
const workerTime = `(rate(golda_stage_busy_seconds_total{$}[5m]) + rate(golda_stage_blocked_seconds_total{$}[5m]) + rate(golda_stage_idle_seconds_total{$}[5m]))`

// The rules. An alert about a stage is silent while one about its cause is
// there: a paused stage has old commands, and a stage that drains is paused by
// no operator.
//
//nolint:lll // a rule and its texts are lines
func (a Alerts) rules() []rule {
	const ofStage, warning, critical = `Stage {{ $labels.stage }} of {{ $labels.pipeline }}: `, "warning", "critical"
	// The last ends count for five minutes, so a stall is noticed as much later.
	late := a.Stall - 5*time.Minute
	return []rule{
		{
			"GoldaPipelineAbsent", `absent(golda_pipeline_in_flight{$})`, 5 * time.Minute, critical,
			`No process of {{ $labels.pipeline }} is scraped.`,
			`See whether its processes run, and whether Prometheus reaches them.`, nil,
		},
		{
			"GoldaCommandsWait", fmt.Sprintf("golda_stage_oldest_wait_seconds{$} > %v\nunless golda_stage_paused{$} == 1", a.Wait.Seconds()), time.Minute, warning,
			ofStage + `a command has waited for {{ $value | humanizeDuration }}.`,
			`Commands arrive faster than they are handled, or handlers are stuck. GoldaBottleneck and GoldaStageStuck say which.`, nil,
		},
		{
			"GoldaStageStuck", fmt.Sprintf("golda_stage_workers_busy{$} > 0\nand (%s) == 0", ends), late, critical,
			ofStage + `{{ $value }} workers are busy and no command ends.`,
			`Pipeline.Handlers says where the handlers are. A stage.Timeout lets a stage give such handlers up.`, nil,
		},
		{
			"GoldaHandlersStuck", `increase(golda_stage_stuck_total{$}[10m]) > 0`, 0, warning,
			ofStage + `handlers did not return in their time.`,
			`Handlers should return when their context ends. Their commands are retried or become letters.`, nil,
		},
		{
			"GoldaHandlersAbandoned", `golda_stage_abandoned{$} > 0`, 5 * time.Minute, warning,
			ofStage + `{{ $value }} handlers that were given up have not returned.`,
			`Each keeps a goroutine, and all that it holds, until the process ends.`, nil,
		},
		{
			"GoldaCrashes", fmt.Sprintf("rate(golda_stage_crashes_total{$}[5m]) / (%s) > %v", ends, a.Crashes), 2 * time.Minute, warning,
			ofStage + `{{ $value | humanizePercentage }} of all tries crash.`,
			`The log has the place of each crash, its fingerprint and a stack. Pipeline.Quarantine has the commands.`, nil,
		},
		{
			"GoldaDeadLetters", `sum without (reason) (increase(golda_stage_dead_lettered_total{$}[15m])) > 0`, 0, warning,
			ofStage + `commands ended without an answer.`,
			`Pipeline.DeadLetters and Pipeline.Quarantine have them, with the reason; retry them when it is gone.`, nil,
		},
		{
			"GoldaLettersDropped", `increase(golda_letters_dropped_total{$}[15m]) > 0`, 0, critical,
			`{{ $labels.pipeline }}: the store {{ $labels.store }} was full and has lost letters.`,
			`These commands are lost. Retry or drop letters, or raise the bounds of pipeline.KeepLetters.`, nil,
		},
		{
			"GoldaOverload", fmt.Sprintf("(sum without (reason) (rate(golda_stage_rejected_total{$,reason=~\"full|rate|policy|disabled\"}[5m])) + sum without (reason) (rate(golda_stage_shed_total{$}[5m])))\n"+
				"  / (rate(golda_stage_accepted_total{$}[5m]) + sum without (reason) (rate(golda_stage_rejected_total{$}[5m]))) > %v", a.Refusals), 5 * time.Minute, warning,
			ofStage + `{{ $value | humanizePercentage }} of all commands are refused or shed.`,
			`More arrives than the stage may accept. GoldaBottleneck says which stage is the limit.`, nil,
		},
		{
			"GoldaBottleneck", "rate(golda_stage_busy_seconds_total{$}[5m]) / " + workerTime + " > 0.9\n" +
				"and golda_stage_workers{$} >= golda_stage_workers_max{$}\n" +
				"and golda_stage_queue_length{$} >= 0.9 * golda_stage_queue_capacity{$}", a.Stall, warning,
			ofStage + `limits the pipeline: its queue is full, and its workers are busy {{ $value | humanizePercentage }} of the time.`,
			`It has as many workers as stage.Workers allows. bottleneck.Of says whether more would help.`, nil,
		},
		{
			"GoldaStageBlocked", "rate(golda_stage_blocked_seconds_total{$}[5m]) / " + workerTime + " > 0.5", a.Stall, "info",
			ofStage + `its workers wait for a next stage {{ $value | humanizePercentage }} of the time.`,
			`A stage behind it is slower, paused or stuck.`, nil,
		},
		{
			"GoldaDrainStuck", "golda_stage_draining{$} == 1\nand (golda_stage_queue_length{$} + golda_stage_in_hand{$} + golda_stage_delayed{$}) > 0", a.Stall, warning,
			ofStage + `its drain does not end.`,
			`The stage has commands still: in handlers, in retries, or blocked by a next stage. Pipeline.Handlers says where handlers are.`, nil,
		},
		{
			"GoldaStagePaused", "golda_stage_paused{$} == 1\nunless golda_stage_draining{$} == 1", a.Pause, warning,
			ofStage + `has been paused for long.`,
			`Pipeline.Resume lets it go on. Pipeline.Journal says what paused it.`, nil,
		},
		{
			"GoldaFeedDown", `golda_feed_down{$} == 1`, 5 * time.Minute, critical,
			`Feed {{ $labels.feed }} of {{ $labels.pipeline }} is restarting, away or given up.`,
			`The feed's snapshot has the error; the log has each restart.`,
			func(s *pipeline.Snapshot) bool { return len(s.Feeds) > 0 },
		},
	}
}
