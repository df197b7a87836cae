// Package prometheus shows a pipeline to Prometheus.
//
//	registry.MustRegister(prometheus.NewCollector(p))
//
// # Promises
//
// A scrape reads one snapshot, so its numbers belong together: in every scrape
// the law holds, for the pipeline
//
//	accepted = replied + failed + shed + dead_lettered + in_flight
//
// and for each stage, with shed and dead_lettered summed over their reasons,
//
//	accepted = ok + forwarded + errors + shed + dead_lettered + queue_length + in_hand + delayed
//
// No label but pipeline, stage, pool and reason is ever used, and reasons are few. So
// the number of series is known from the start: it depends on the stages, not on
// what travels through them.
//
// # Cost
//
// Nothing is added to the way of a command: the accounts are kept anyway, and
// are read only when somebody scrapes. A scrape costs one snapshot, which holds
// the locks of all stages for as long as it takes to copy a kilobyte or two for
// each: about a microsecond. No worker is woken, stopped or asked for anything. All
// else, which is a hundred times that, is done by the goroutine that scrapes: a registry
// checks and writes some forty series of each stage. Where the time goes is said by
//
//	go test -run '^$' -bench Scrape -benchmem ./adapter/prometheus
//
// The collector starts no goroutine and remembers nothing, so it needs no stop.
//
// # Several pipelines
//
// Each has a collector of its own, and all may be registered in one registry.
// Two of the same name are not: the second is refused when it is registered. To
// follow a pipeline that is made anew under its old name, unregister the old
// collector first.
//
// # Metrics
//
// Of a pipeline, with the label pipeline:
//
//	golda_pipeline_accepted_total        counter
//	golda_pipeline_replied_total         counter
//	golda_pipeline_failed_total          counter
//	golda_pipeline_shed_total            counter
//	golda_pipeline_dead_lettered_total   counter
//	golda_pipeline_in_flight             gauge
//
// Of a stage, with the labels pipeline and stage, and reason where it says so:
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
//	golda_stage_in_hand                  gauge
//	golda_stage_suspended                gauge    a part of in_hand
//	golda_stage_delayed                  gauge
//	golda_stage_crashes_total            counter
//	golda_stage_retries_total            counter
//	golda_stage_restarts_total           counter
//	golda_stage_workers                  gauge
//	golda_stage_workers_busy             gauge
//	golda_stage_workers_blocked          gauge      wait for room in a stage ahead
//	golda_stage_workers_idle             gauge      with busy and blocked they are all of workers
//	golda_stage_workers_min              gauge
//	golda_stage_workers_max              gauge
//	golda_stage_instances                gauge
//	golda_stage_visits_total             counter    by workers of shared pools
//	golda_stage_empty_visits_total       counter
//	golda_stage_busy_seconds_total       counter    a handler that runs counts up to now
//	golda_stage_blocked_seconds_total    counter
//	golda_stage_idle_seconds_total       counter
//	golda_stage_service_samples_total    counter
//	golda_stage_service_p50_seconds      gauge
//	golda_stage_service_p99_seconds      gauge
//	golda_stage_wait_samples_total       counter
//	golda_stage_wait_p50_seconds         gauge
//	golda_stage_wait_p99_seconds         gauge
//
// Of a pool of workers that stages share, with the labels pipeline and pool:
//
//	golda_pool_workers                   gauge
//	golda_pool_stages                    gauge
//	golda_pool_rounds_total              counter
//	golda_pool_visits_total              counter
//	golda_pool_empty_visits_total        counter
//
// # Times
//
// Quantiles are plain gauges, not a summary. A summary has a sum, and the time
// that commands wait is sampled: its sum is not known, and a made-up one would
// be divided by somebody. They are quantiles of all that was measured since
// the pipeline started, at most an eighth above the truth; as long as nothing was
// measured they are absent, not zero. They cannot be added up or averaged over
// stages. The mean time in the handler over the last minutes is exact, and needs
// no quantile:
//
//	rate(golda_stage_busy_seconds_total[5m]) / rate(golda_stage_service_samples_total[5m])
//
// # Testing
//
// Give [NewCollector] a [Source] that returns a snapshot you wrote down, and
// compare with client_golang's testutil.CollectAndCompare.
package prometheus
