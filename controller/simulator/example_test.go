package simulator_test

import (
	"context"
	"fmt"
	"time"

	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/controller/simulator"
)

// How many processes do I need? Two hundred pages a second are read, which takes a quarter of a second on average, and most of them are scaled, which
// computes. 99 of 100 should take less than two seconds.
func ExampleFewest() {
	m := simulator.Model{
		Length: time.Minute, Warmup: 10 * time.Second, CPUs: 2,
		Sources: []simulator.Source{{To: "read", Load: simulator.Steady(200)}},
		Stages: []simulator.Stage{
			{Name: "read", Service: simulator.LogNormal{Mean: 250 * time.Millisecond, CV: 1}, Workers: 16, Forward: []simulator.Edge{{To: "scale", Share: 0.8}}},
			{Name: "scale", Service: simulator.Exponential(20 * time.Millisecond), Computes: true, Workers: 2},
		},
		Fleet: &simulator.Fleet{Hop: 52 * time.Microsecond},
	}
	n, r, err := simulator.Fewest(context.Background(), m, 100, func(r *simulator.Result) bool {
		return r.Latency.Quantile(0.99) < 2*time.Second
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d processes, whose readers are busy for %.0f%% of their time\n", n, 100*r.Stages[0].Utilization)
	// Output: 4 processes, whose readers are busy for 78% of their time
}

// A load becomes ten times as large. The default policy has doubled the workers until the queue is short again.
func ExampleRun() {
	r, err := simulator.Run(context.Background(), simulator.Model{
		Length: 20 * time.Second, Every: time.Second, Policy: policy.Backlog{},
		Sources: []simulator.Source{{To: "call", Load: simulator.Step(100, 1000, 10*time.Second)}},
		Stages:  []simulator.Stage{{Name: "call", Service: simulator.Exponential(20 * time.Millisecond), Most: 64}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range r.Series[8:13] {
		fmt.Printf("%v: %d workers, 99 of 100 within %v\n", p.At, p.Workers, p.P99.Round(time.Millisecond))
	}
	for _, c := range r.Journal[len(r.Journal)-3:] {
		fmt.Println(c)
	}
	fmt.Printf("arrived %d = done %d + in flight %d\n", r.Arrived, r.Done, r.InFlight)
	// Output:
	// 9s: 4 workers, 99 of 100 within 69ms
	// 10s: 4 workers, 99 of 100 within 94ms
	// 11s: 48 workers, 99 of 100 within 348ms
	// 12s: 48 workers, 99 of 100 within 96ms
	// 13s: 48 workers, 99 of 100 within 89ms
	// 10.4s backlog: stage "call": workers 8 to 16: queue 270, work for 4.856s, target 100ms: 49 workers wanted
	// 10.5s backlog: stage "call": workers 16 to 32: queue 305, work for 6.841s, target 100ms: 69 workers wanted
	// 10.6s backlog: stage "call": workers 32 to 48: queue 227, work for 4.781s, target 100ms: 48 workers wanted
	// arrived 10911 = done 10892 + in flight 19
}

// An autoscaler follows the load of a day: between one command in two seconds at midnight and five a second at noon, each of which takes two seconds.
func ExampleDay() {
	r, err := simulator.Run(context.Background(), simulator.Model{
		Length: 24 * time.Hour, Every: 3 * time.Hour,
		Sources: []simulator.Source{{To: "draw", Load: simulator.Day(0.5, 5)}},
		Stages:  []simulator.Stage{{Name: "draw", Service: simulator.Exponential(2 * time.Second), Workers: 4}},
		Fleet:   &simulator.Fleet{InFlight: 8, Scale: &simulator.Autoscaler{}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range r.Series {
		fmt.Printf("%v: %d processes\n", p.At, p.Processes)
	}
	fmt.Printf("%.1f on average; half of the commands within %v\n", r.Processes, r.Latency.Quantile(0.5).Round(time.Millisecond))
	// Output:
	// 3h0m0s: 2 processes
	// 6h0m0s: 3 processes
	// 9h0m0s: 4 processes
	// 12h0m0s: 5 processes
	// 15h0m0s: 4 processes
	// 18h0m0s: 3 processes
	// 21h0m0s: 2 processes
	// 24h0m0s: 1 processes
	// 3.0 on average; half of the commands within 1.451s
}

// A pipeline that runs tells how long its handlers take: with measured times a model needs no distribution. A result can be printed.
func ExampleSample() {
	measured := simulator.Sample{8 * time.Millisecond, 9 * time.Millisecond, 9 * time.Millisecond, 12 * time.Millisecond, 80 * time.Millisecond}
	r, err := simulator.Run(context.Background(), simulator.Model{
		Length:  10 * time.Minute,
		Sources: []simulator.Source{{To: "query", Load: simulator.Bursts(20, 200, time.Minute, 5*time.Second)}},
		Stages:  []simulator.Stage{{Name: "query", Service: measured, Workers: 4, Capacity: 100, Reject: true}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(r)
	// Output:
	// 33 a second done by 1.0 processes; latency 203ms on average, 730ms for 99 of 100, 843ms at most
	// stage  workers  busy  blocked  queue  wait   99 of 100
	// query  4.0      20%   0.0      6.0    179ms  700ms
	// arrived 20988 = done 20011 + shed 0 + failed 0 + refused 885 + in flight 92; delivered again 0
}
