package event_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/window/event"
)

// A request has the time at which a client sent it.
type request struct {
	at    time.Time
	page  string
	bytes int
}

func (r request) sent() time.Time { return r.at }

func (r request) of() string { return r.page }

func count(n int, _ request) int { return n + 1 }

// morning returns a request at a time of the day.
func morning(at, page string) request {
	t, _ := time.Parse("15:04:05", at)
	return request{at: t.AddDate(2026, 0, 0), page: page, bytes: 100}
}

// show feeds requests to a flow and prints what it passes on.
func show(of *stage.Flow[request, event.Window[string, int]], requests ...request) {
	print := stage.Sink("print", func(_ context.Context, w event.Window[string, int]) error {
		fmt.Println(w.Start.Format("15:04:05"), w.End.Format("15:04:05"), w.Key, w.Value)
		return nil
	}, stage.Workers(1, 1))
	p, err := pipeline.New("example", of.To(print), pipeline.Feed("requests", of, source.Seq(slices.Values(requests))))
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := p.Run(context.Background()); err != nil {
		fmt.Println(err)
	}
}

// Requests are counted in the minutes in which they were sent, though they come up to ten seconds late.
func ExampleTumbling() {
	perMinute := event.Tumbling("per minute", time.Minute,
		event.Sum(request.sent, request.of, count), event.Watermark[request]{Disorder: 10 * time.Second})
	show(perMinute, morning("09:00:10", "/"), morning("09:01:02", "/"), morning("09:00:58", "/"), morning("09:01:20", "/"))
	// Output:
	// 09:00:00 09:01:00 / 2
	// 09:01:00 09:02:00 / 2
}

// Each half minute, the requests of the last minute are counted.
func ExampleSliding() {
	lastMinute := event.Sliding("last minute", time.Minute, 30*time.Second,
		event.Sum(request.sent, request.of, count), event.Watermark[request]{})
	show(lastMinute, morning("09:00:10", "/"), morning("09:00:40", "/"), morning("09:01:10", "/"))
	// Output:
	// 08:59:30 09:00:30 / 1
	// 09:00:00 09:01:00 / 2
	// 09:00:30 09:01:30 / 2
	// 09:01:00 09:02:00 / 1
}

// A visit ends when there is no request for half an hour. Both parts of a visit are known before the request that connects them.
func ExampleSession() {
	visits := event.Session("visits", 30*time.Minute, event.Sum(request.sent, request.of, count),
		func(a, b int) int { return a + b }, event.Watermark[request]{Disorder: time.Hour})
	show(visits, morning("09:00:00", "ann"), morning("09:50:00", "ann"), morning("09:25:00", "ann"), morning("12:00:00", "ann"))
	// Output:
	// 09:00:00 10:20:00 ann 3
	// 12:00:00 12:30:00 ann 1
}

// A window that was passed on stays for a minute; what comes later is counted as dropped.
func ExampleWatermark() {
	var dropped atomic.Int64
	perMinute := event.Tumbling("per minute", time.Minute, event.Sum(request.sent, request.of, count),
		event.Watermark[request]{Lateness: time.Minute, Dropped: &dropped})
	show(perMinute, morning("09:00:10", "/"), morning("09:01:00", "/"), morning("09:00:20", "/"), morning("09:02:00", "/"), morning("09:00:30", "/"))
	fmt.Println(dropped.Load(), "dropped")
	// Output:
	// 09:00:00 09:01:00 / 1
	// 09:00:00 09:01:00 / 2
	// 09:01:00 09:02:00 / 1
	// 09:02:00 09:03:00 / 1
	// 1 dropped
}
