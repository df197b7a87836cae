// Package lab compares policies on a pipeline of yours, under a load that you
// choose, in about ten lines:
//
//	report, err := lab.Compare(ctx, lab.Experiment{
//		Pipeline: func(control pipeline.Part) (*pipeline.Pipeline, lab.Send, error) {
//			resize := stage.Map("resize", resizeImage)
//			p, err := pipeline.New("images", resize, control)
//			return p, func(ctx context.Context, r lab.Request) error {
//				_, err := resize.Call(ctx, imageOf(r.Seed))
//				return err
//			}, err
//		},
//		Workload: lab.Burst(200, 800, 4*time.Second, 6*time.Second),
//		Policies: []string{"backlog", "seda", "fixed", "srpt"},
//		Length:   10 * time.Second,
//	})
//	fmt.Print(report)           // a table
//	err = report.WriteHTML(file) // a page with plots
//
// # What a run is
//
// For each run the lab has a new pipeline made, starts it, sends the requests
// of the workload, waits for all answers, stops the pipeline and checks its
// accounts. Each candidate has several runs. They are interleaved, and the
// candidates of a round get the same requests at the same times: each request
// has a random number, [Request].Seed, from which the function of the user
// makes a command.
//
// # Workloads
//
// The load is open: a request is sent at its time on a goroutine of its own,
// whether or not others have been answered, as independent users do.
// [Poisson] is a steady load, [Burst] an overload and the time after it,
// [OnOff] a load that changes at random, and [Trace] and [TraceFile] repeat
// times that were recorded. The same seed gives the same times.
//
// # What is measured
//
//   - throughput: answers a second;
//   - goodput: answers within the deadline a second; burst goodput: the same
//     during the bursts; good, refused, dropped and failed are shares of the
//     requests, and in time is the share of good answers in all answers;
//   - p50, p99, p99.9 and max: the latencies of answered requests, in HDR
//     histograms. They flatter a policy that refuses, so read them together
//     with goodput;
//   - recovery: the time from the end of a burst until the p99 of five windows
//     in a row is below twice the p99 before the burst;
//   - worker-seconds: live workers of all stages and pools, integrated over
//     samples of the pipeline's snapshots; CPU-seconds of the process;
//   - other load: how much of the machine's CPUs other processes used, where
//     the system says it;
//   - fairness: Jain's index over the shares of good answers of the classes;
//   - decisions: changes a minute that the policy made. Visit plans that follow
//     one another count as one;
//   - most in flight: the most commands in the pipeline at once.
//
// A latency counts from when a request should have been sent. A generator that
// waits while a pipeline stalls would leave out the requests that suffer most
// (coordinated omission).
//
// # How sure it is
//
// Each figure is the median of the runs with an interval of order statistics,
// as in "12.3 [11.0 to 14.1]". [Report].Verdicts says which candidates differ
// beyond noise: their intervals do not overlap. Where nothing differs, the
// report says that, too. A comparison of many candidates in many figures finds
// some difference by chance; repeat it with another Seed before you rely on it.
//
// The generator and the pipeline share a process and its CPUs. So the lab
// compares policies with one another, and not machines.
//
// # In virtual time
//
// With a Model of the pipeline the lab also runs each policy that package
// simulator knows in virtual time, and the report has both figures. Where they
// are far apart, the model lacks a cost, or the machine has other work to do.
// The load of the model is the rate of the workload, in steps of a tenth of a
// second.
//
// # Failure
//
// [Compare] returns an error instead of figures that mislead: when the
// generator is late, when file descriptors run out, when the accounts of a
// pipeline do not add up, when requests get no answer, or a pipeline does not
// stop.
//
// # Bounds
//
// A run has at most five million requests, of which 131072 wait for an answer
// at once, and lasts a day at most. The lab keeps 64 bytes for each request of
// a run that is measured, fifty points for each run, and a histogram of some
// 300 kB for each candidate.
package lab
