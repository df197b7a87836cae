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
// The only labels are pipeline, stage, pool, feed, store, reason, and of edges to
// and port. There are three stores and few reasons, so the number of series is
// known from the start: it depends on the stages, not on the commands.
//
// # Cost
//
// The collector adds nothing to the path of a command: the accounts are kept
// anyway, and are read only during a scrape. A scrape costs one snapshot, which
// holds the locks of all stages for as long as it takes to copy a kilobyte or
// two for each: about a microsecond. No worker is woken or stopped. Everything
// else, which takes a hundred times as long, is done by the goroutine that
// scrapes: a registry checks and writes about seventy series for each stage. A
// collector that answers scrapes itself, see [Collector.ServeHTTP], takes a
// tenth of that time. This command measures the parts:
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
// The page docs/metrics.md lists all metrics. [Alerts.Rules] returns alert rules
// for a pipeline, and [Dashboard] a dashboard for Grafana:
//
//	os.WriteFile("alerts.yaml", prometheus.Alerts{}.Rules(p), 0o644)
//	os.WriteFile("dashboard.json", prometheus.Dashboard(p), 0o644)
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
