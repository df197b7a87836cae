// Package prometheus exports a pipeline's metrics to Prometheus.
//
//	registry.MustRegister(prometheus.NewCollector(p))
//
// # Promises
//
// A scrape reads one snapshot, so its numbers are consistent: in every scrape
// the accounting law holds, for the pipeline
//
//	accepted = replied + failed + shed + dead_lettered + in_flight
//
// and for each stage, with shed and dead_lettered summed over their reasons,
//
//	accepted = ok + forwarded + errors + shed + dead_lettered + queue_length + in_hand + delayed
//
// The only labels are pipeline, stage, pool, feed and reason, and there are few
// reasons. So the number of series is known from the start: it depends on the
// stages, not on the commands.
//
// # Cost
//
// The collector adds nothing to the path of a command: the accounts are kept
// anyway, and are read only during a scrape. A scrape costs one snapshot, which
// holds the locks of all stages for as long as it takes to copy a kilobyte or
// two for each: about a microsecond. No worker is woken or stopped. Everything
// else, which takes a hundred times as long, is done by the goroutine that
// scrapes: a registry checks and writes about forty series for each stage. This
// command measures the parts:
//
//	go test -run '^$' -bench Scrape -benchmem ./adapter/prometheus
//
// The collector starts no goroutine and keeps no state, so it needs no stop.
//
// # Several pipelines
//
// Each pipeline has a collector of its own, and all may be registered in one
// registry. A second collector for the same name is refused when it is
// registered. To follow a new pipeline under an old name, unregister the old
// collector first.
//
// # Metrics
//
// A pipeline, with the label pipeline:
//
//	golda_pipeline_accepted_total        counter
//	golda_pipeline_replied_total         counter
//	golda_pipeline_failed_total          counter
//	golda_pipeline_shed_total            counter
//	golda_pipeline_dead_lettered_total   counter
//	golda_pipeline_in_flight             gauge
//
// A stage, with the labels pipeline and stage, and reason where noted:
//
//	golda_stage_accepted_total           counter    submitted and received
//	golda_stage_submitted_total          counter    from outside
//	golda_stage_received_total           counter    from stages
//	golda_stage_rejected_total           counter    by reason: full, closed, cancelled, type,
//	                                                disabled, rate, policy
//	golda_stage_ok_total                 counter
//	golda_stage_forwarded_total          counter
//	golda_stage_errors_total             counter
//	golda_stage_shed_total               counter    by reason: full, dropped_newest, dropped_oldest,
//	                                                disabled
//	golda_stage_dead_lettered_total      counter    by reason: crash, stopped
//	golda_stage_emitted_total            counter
//	golda_stage_queue_length             gauge
//	golda_stage_queue_capacity           gauge
//	golda_stage_oldest_wait_seconds      gauge    how long the next command has waited
//	golda_stage_held                     gauge    a part of the queue: see stage.Guard
//	golda_stage_in_hand                  gauge
//	golda_stage_suspended                gauge    a part of in_hand
//	golda_stage_delayed                  gauge
//	golda_stage_submitters               gauge    callers and handlers that wait for a free slot
//	golda_stage_results_waiting          gauge    of a stage with Ordered
//	golda_stage_crashes_total            counter
//	golda_stage_crash_streak             gauge    crashes since a command was last completed
//	golda_stage_retries_total            counter
//	golda_stage_retries_refused_total    counter    by the retry budget
//	golda_stage_stuck_total              counter    handlers that did not return in time
//	golda_stage_abandoned                gauge      such handlers that still have not returned
//	golda_stage_restarts_total           counter
//	golda_stage_workers                  gauge
//	golda_stage_workers_busy             gauge
//	golda_stage_workers_blocked          gauge      wait for a free slot in a stage ahead
//	golda_stage_workers_idle             gauge      busy, blocked and idle add up to workers
//	golda_stage_workers_min              gauge
//	golda_stage_workers_max              gauge
//	golda_stage_instances                gauge
//	golda_stage_keys                     gauge      keys that have an instance
//	golda_stage_passivated_total         counter    instances of keys that were stopped
//	golda_stage_paused                   gauge      1 or 0
//	golda_stage_draining                 gauge      1 or 0
//	golda_stage_visits_total             counter    by workers of shared pools
//	golda_stage_empty_visits_total       counter
//	golda_stage_busy_seconds_total       counter    running handlers count up to now
//	golda_stage_blocked_seconds_total    counter
//	golda_stage_idle_seconds_total       counter
//	golda_stage_rate_wait_seconds_total  counter
//	golda_stage_rate_keys                gauge      keys that wait for their rate
//	golda_stage_fair_keys                gauge      keys of a fair stage with queued commands
//	golda_stage_fair_most                gauge      queued commands of one of them
//	golda_stage_wait_seconds             histogram  time in the queue, sampled
//	golda_stage_service_seconds          histogram  time in the handler
//
// An edge of the graph, with the labels pipeline, stage, to (the next stage) and
// port, which is empty if a handler took the edge without declaring it:
//
//	golda_edge_moved_total               counter    commands that were handed over
//
// A feed, with the labels pipeline and feed:
//
//	golda_feed_submitted_total           counter
//	golda_feed_refused_total             counter
//	golda_feed_restarts_total            counter
//	golda_feed_position                  gauge
//	golda_feed_end                       gauge      0 if it is not known
//	golda_feed_checkpoint                gauge      0 without a checkpoint
//
// A pool of workers that stages share, with the labels pipeline and pool:
//
//	golda_pool_workers                   gauge
//	golda_pool_stages                    gauge
//	golda_pool_rounds_total              counter
//	golda_pool_visits_total              counter
//	golda_pool_empty_visits_total        counter
//
// # Times
//
// Times are histograms, which can be added up over stages and processes, and
// whose quantiles are of an interval:
//
//	histogram_quantile(0.99, sum by (stage, le) (rate(golda_stage_service_seconds_bucket[5m])))
//
// Each has classic buckets, at bounds that people write in objectives, and
// native ones, eight for each doubling, which Prometheus prefers if it scrapes
// native histograms. A stage has buckets of its own, an eighth wide, so a sample
// may be counted in the next bucket if it is at most an eighth below the bound,
// and is never counted below a bound that it exceeds. The sum is estimated from
// the buckets, and is at most a sixteenth off. The mean time in the handler is
// exact with the busy time:
//
//	rate(golda_stage_busy_seconds_total[5m]) / rate(golda_stage_service_seconds_count[5m])
//
// # Testing
//
// Pass [NewCollector] a [Source] that returns a fixed snapshot, and compare
// with client_golang's testutil.CollectAndCompare.
package prometheus
