package prometheus

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/reason"
)

const (
	counter = prometheus.CounterValue
	gauge   = prometheus.GaugeValue
)

// metric is one number of a snapshot: its name, its help text, and how to read
// it.
type metric[S any] struct {
	name string
	help string
	kind prometheus.ValueType
	read func(*S) float64
}

// pipelineMetrics are the terms of the accounting law.
var pipelineMetrics = []metric[pipeline.Snapshot]{
	{
		"golda_pipeline_accepted_total", "Commands that the pipeline accepted or that its handlers emitted.",
		counter, func(s *pipeline.Snapshot) float64 { return float64(s.Accepted) },
	},
	{
		"golda_pipeline_replied_total", "Commands that ended with a result.",
		counter, func(s *pipeline.Snapshot) float64 { return float64(s.Replied) },
	},
	{
		"golda_pipeline_failed_total", "Commands that ended with an error.",
		counter, func(s *pipeline.Snapshot) float64 { return float64(s.Failed) },
	},
	{
		"golda_pipeline_shed_total", "Commands that were accepted and then dropped.",
		counter, func(s *pipeline.Snapshot) float64 { return float64(s.Shed) },
	},
	{
		"golda_pipeline_dead_lettered_total", "Commands that ended without an answer.",
		counter, func(s *pipeline.Snapshot) float64 { return float64(s.DeadLettered) },
	},
	{
		"golda_pipeline_in_flight", "Commands that have not ended yet.",
		gauge, func(s *pipeline.Snapshot) float64 { return float64(s.InFlight) },
	},
}

var stageMetrics = []metric[stage.Snapshot]{
	// Commands that entered.
	{
		"golda_stage_accepted_total", "Commands that the stage accepted: submitted and received.",
		counter, func(s *stage.Snapshot) float64 { return float64(s.Counts.Accepted) },
	},
	{
		"golda_stage_submitted_total", "Commands accepted from outside the pipeline.",
		counter, func(s *stage.Snapshot) float64 { return float64(s.Counts.Submitted) },
	},
	{
		"golda_stage_received_total", "Commands accepted from stages.",
		counter, func(s *stage.Snapshot) float64 { return float64(s.Counts.Received) },
	},

	// The outcomes; shed and dead-lettered are in reasonMetrics.
	{
		"golda_stage_ok_total", "Commands that ended in the stage with a result.",
		counter, func(s *stage.Snapshot) float64 { return float64(s.Counts.OK) },
	},
	{
		"golda_stage_forwarded_total", "Commands that went on to another stage.",
		counter, func(s *stage.Snapshot) float64 { return float64(s.Counts.Forwarded) },
	},
	{
		"golda_stage_errors_total", "Commands that ended in the stage with an error.",
		counter, func(s *stage.Snapshot) float64 { return float64(s.Counts.Errors) },
	},
	{
		"golda_stage_emitted_total", "Further commands that the stage's handlers sent out.",
		counter, func(s *stage.Snapshot) float64 { return float64(s.Counts.Emitted) },
	},

	// The current state.
	{
		"golda_stage_queue_length", "Commands in the queue.",
		gauge, func(s *stage.Snapshot) float64 { return float64(s.Queue.Queued) },
	},
	{
		"golda_stage_queue_capacity", "Commands that the queue can hold.",
		gauge, func(s *stage.Snapshot) float64 { return float64(s.Queue.Capacity) },
	},
	{
		"golda_stage_oldest_wait_seconds", "How long the command that is taken next has waited in the queue.",
		gauge, func(s *stage.Snapshot) float64 { return s.Queue.Oldest.Seconds() },
	},
	{
		"golda_stage_held", "Commands in the queue that guards or synchronizers hold back, or whose keys are parked.",
		gauge, func(s *stage.Snapshot) float64 { return float64(s.Queue.Held) },
	},
	{
		"golda_stage_in_hand", "Commands that workers have taken and not finished.",
		gauge, func(s *stage.Snapshot) float64 { return float64(s.Queue.InHand) },
	},
	{
		"golda_stage_suspended", "Commands in hand whose handlers are suspended, and hold no worker.",
		gauge, func(s *stage.Snapshot) float64 { return float64(s.Queue.Suspended) },
	},
	{
		"golda_stage_delayed", "Commands that wait, out of the queue, for their next attempt.",
		gauge, func(s *stage.Snapshot) float64 { return float64(s.Queue.Delayed) },
	},
	{
		"golda_stage_submitters", "Callers and handlers that wait for a free slot.",
		gauge, func(s *stage.Snapshot) float64 { return float64(s.Queue.Submitters) },
	},
	{
		"golda_stage_results_waiting", "Results of an ordered stage that wait until those of earlier commands have left.",
		gauge, func(s *stage.Snapshot) float64 { return float64(s.Queue.Waiting) },
	},

	// Faults and retries.
	{
		"golda_stage_crashes_total", "Attempts that crashed the handler.",
		counter, func(s *stage.Snapshot) float64 { return float64(s.Counts.Crashes) },
	},
	{
		"golda_stage_crash_streak", "Crashes since a command was last completed.",
		gauge, func(s *stage.Snapshot) float64 { return float64(s.Workers.CrashStreak) },
	},
	{
		"golda_stage_retries_total", "Further attempts at a command.",
		counter, func(s *stage.Snapshot) float64 { return float64(s.Counts.Retries) },
	},
	{
		"golda_stage_retries_refused_total", "Further attempts that the retry budget did not allow.",
		counter, func(s *stage.Snapshot) float64 { return float64(s.Counts.RetriesRefused) },
	},
	{
		"golda_stage_stuck_total", "Handlers that did not return in time, so that their workers were abandoned.",
		counter, func(s *stage.Snapshot) float64 { return float64(s.Counts.Stuck) },
	},
	{
		"golda_stage_abandoned", "Handlers that were given up and have not returned yet.",
		gauge, func(s *stage.Snapshot) float64 { return float64(s.Workers.Abandoned) },
	},
	{
		"golda_stage_restarts_total", "Workers that replaced a crashed one.",
		counter, func(s *stage.Snapshot) float64 { return float64(s.Counts.Restarts) },
	},

	// The workers.
	{
		"golda_stage_workers", "Current number of workers.",
		gauge, func(s *stage.Snapshot) float64 { return float64(s.Workers.Live) },
	},
	{
		"golda_stage_workers_busy", "Workers that run a handler, or are about to.",
		gauge, func(s *stage.Snapshot) float64 { return float64(s.Workers.Busy) },
	},
	{
		"golda_stage_workers_blocked", "Workers that wait for a free slot in a stage ahead.",
		gauge, func(s *stage.Snapshot) float64 { return float64(s.Workers.Blocked) },
	},
	{
		"golda_stage_workers_idle", "Workers that have nothing to do.",
		gauge, func(s *stage.Snapshot) float64 { return float64(s.Workers.Idle) },
	},
	{
		"golda_stage_workers_min", "The fewest workers that the stage may have.",
		gauge, func(s *stage.Snapshot) float64 { return float64(s.Workers.Min) },
	},
	{
		"golda_stage_workers_max", "The most workers that the stage may have.",
		gauge, func(s *stage.Snapshot) float64 { return float64(s.Workers.Max) },
	},

	{
		"golda_stage_instances", "Workers that may be at the stage at once, or commands under way if handlers suspend.",
		gauge, func(s *stage.Snapshot) float64 { return float64(s.Workers.Instances) },
	},
	{
		"golda_stage_keys", "Keys of a keyed stage that have an instance.",
		gauge, func(s *stage.Snapshot) float64 { return float64(s.Workers.Keys) },
	},
	{
		"golda_stage_passivated_total", "Instances of keys that were stopped because they were idle or too many.",
		counter, func(s *stage.Snapshot) float64 { return float64(s.Counts.Passivated) },
	},
	{
		"golda_stage_paused", "1 while nothing is taken from the queue, else 0.",
		gauge, func(s *stage.Snapshot) float64 { return truth(s.Paused) },
	},
	{
		"golda_stage_draining", "1 while the stage's entry is closed because of a drain, else 0.",
		gauge, func(s *stage.Snapshot) float64 { return truth(s.Draining) },
	},
	{
		"golda_stage_visits_total", "Visits by workers of shared pools.",
		counter, func(s *stage.Snapshot) float64 { return float64(s.Counts.Visits) },
	},
	{
		"golda_stage_empty_visits_total", "Visits by workers of shared pools that found nothing to do.",
		counter, func(s *stage.Snapshot) float64 { return float64(s.Counts.EmptyVisits) },
	},

	// Time.
	{
		"golda_stage_busy_seconds_total", "Time that all workers spent in handlers.",
		counter, func(s *stage.Snapshot) float64 { return s.Counts.BusyTime.Seconds() },
	},
	{
		"golda_stage_blocked_seconds_total", "Time that the stage's workers waited for a free slot in a stage ahead.",
		counter, func(s *stage.Snapshot) float64 { return s.Counts.BlockedTime.Seconds() },
	},
	{
		"golda_stage_idle_seconds_total", "Time that the stage's workers had nothing to do.",
		counter, func(s *stage.Snapshot) float64 { return s.Counts.IdleTime.Seconds() },
	},
	{
		"golda_stage_rate_wait_seconds_total", "Time that commands waited in the queue because of the stage's rate alone.",
		counter, func(s *stage.Snapshot) float64 { return s.Counts.RateWait.Seconds() },
	},
	{
		"golda_stage_rate_keys", "Keys with commands that wait in the queue for the rate of their key.",
		gauge, func(s *stage.Snapshot) float64 { return float64(s.Queue.RateKeys) },
	},
	{
		"golda_stage_parked_keys", "Keys whose commands wait for the letter of one that has failed.",
		gauge, func(s *stage.Snapshot) float64 { return float64(s.Queue.ParkedKeys) },
	},
	{
		"golda_stage_fair_keys", "Keys of a stage with Fair that have commands in the queue.",
		gauge, func(s *stage.Snapshot) float64 { return float64(s.Queue.FairKeys) },
	},
	{
		"golda_stage_fair_most", "Commands in the queue of the key that has the most for its weight.",
		gauge, func(s *stage.Snapshot) float64 { return float64(s.Queue.FairMost) },
	},
}

// feedMetrics are the metrics of a feed.
var feedMetrics = []metric[pipeline.FeedSnapshot]{
	{
		"golda_feed_submitted_total", "Commands of the source that were accepted.",
		counter, func(f *pipeline.FeedSnapshot) float64 { return float64(f.Submitted) },
	},
	{
		"golda_feed_refused_total", "Commands of the source that were not accepted.",
		counter, func(f *pipeline.FeedSnapshot) float64 { return float64(f.Refused) },
	},
	{
		"golda_feed_restarts_total", "Restarts of the source.",
		counter, func(f *pipeline.FeedSnapshot) float64 { return float64(f.Restarts) },
	},
	{
		"golda_feed_down", "1 while the source is restarting, away or given up, else 0.",
		gauge, func(f *pipeline.FeedSnapshot) float64 { return truth(down[f.State]) },
	},
	{
		"golda_feed_position", "Position of the source.",
		gauge, func(f *pipeline.FeedSnapshot) float64 { return float64(f.Position) },
	},
	{
		"golda_feed_end", "Position of the end of the source, 0 if it is not known.",
		gauge, func(f *pipeline.FeedSnapshot) float64 { return float64(f.Total) },
	},
	{
		"golda_feed_checkpoint", "Position up to which all commands have ended, 0 without a checkpoint.",
		gauge, func(f *pipeline.FeedSnapshot) float64 { return float64(f.Checkpoint) },
	},
}

// down are the states in which a feed submits nothing although its source has
// not ended.
var down = map[string]bool{"away": true, "restarting": true, "gave up": true}

// poolMetrics are the metrics of a pool of workers that stages share.
var poolMetrics = []metric[pipeline.Pool]{
	{
		"golda_pool_workers", "Current number of workers.",
		gauge, func(p *pipeline.Pool) float64 { return float64(p.Workers) },
	},
	{
		"golda_pool_stages", "Stages that share the workers now.",
		gauge, func(p *pipeline.Pool) float64 { return float64(len(p.Stages)) },
	},
	{
		"golda_pool_rounds_total", "Times that a worker visited the last place of the visit plan.",
		counter, func(p *pipeline.Pool) float64 { return float64(p.Rounds) },
	},
	{
		"golda_pool_visits_total", "Visits of workers to stages.",
		counter, func(p *pipeline.Pool) float64 { return float64(p.Visits) },
	},
	{
		"golda_pool_empty_visits_total", "Visits that found nothing to do.",
		counter, func(p *pipeline.Pool) float64 { return float64(p.EmptyVisits) },
	},
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// reasonMetric is a counter that a snapshot splits by reason.
type reasonMetric struct {
	name  string
	help  string
	known []reason.Reason // exported from the start, as zero
	read  func(*stage.Snapshot) map[reason.Reason]uint64
}

var reasonMetrics = []reasonMetric{
	{
		"golda_stage_rejected_total", "Commands that were not accepted, by reason.",
		[]reason.Reason{
			reason.Full, reason.Closed, reason.Cancelled, reason.Type,
			reason.Disabled, reason.Rate, reason.Policy,
		},
		func(s *stage.Snapshot) map[reason.Reason]uint64 { return s.Reasons.Rejected },
	},
	{
		"golda_stage_shed_total", "Commands that were accepted and dropped, by reason.",
		[]reason.Reason{reason.Full, reason.Newest, reason.Oldest, reason.Disabled, reason.Expired},
		func(s *stage.Snapshot) map[reason.Reason]uint64 { return s.Reasons.Shed },
	},
	{
		"golda_stage_dead_lettered_total", "Commands that ended in the stage without an answer, by reason.",
		[]reason.Reason{reason.Crash, reason.Stopped},
		func(s *stage.Snapshot) map[reason.Reason]uint64 { return s.Reasons.DeadLettered },
	},
}
