package stage_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/overflow"
)

// quiet keeps the examples' crashes out of the standard error.
var quiet = pipeline.Logger(slog.New(slog.DiscardHandler))

// must starts a pipeline for an example and returns what stops it.
func must(parts ...pipeline.Part) (stop func()) {
	p, err := pipeline.New("example", append(parts, quiet)...)
	if err != nil {
		panic(err)
	}
	if err := p.Start(context.Background()); err != nil {
		panic(err)
	}
	return func() { _ = p.Stop(context.Background()) }
}

// A function is all that a stage needs.
func ExampleFunc() {
	shout := stage.Func("shout", func(_ context.Context, word string) behaviour.Outcome {
		return behaviour.OK(strings.ToUpper(word))
	})
	defer must(shout)()

	fmt.Println(stage.Call[string](context.Background(), shout, "hello"))
	// Output: HELLO <nil>
}

// counter counts the commands that it handles. Each worker has its own, so it needs no lock.
type counter struct{ seen int }

func (c *counter) HandleCommand(_ context.Context, word string) behaviour.Outcome {
	if word == "" {
		panic("an empty word")
	}
	c.seen++
	return behaviour.OK(c.seen)
}

// After a crash a worker continues with a fresh instance: the count starts again.
func ExampleEach() {
	count := stage.Each("count", func() behaviour.Behaviour[string] { return &counter{} }, stage.Workers(1, 1))
	defer must(count)()

	ctx := context.Background()
	for _, word := range []string{"a", "b", "", "c"} {
		fmt.Println(stage.Call[int](ctx, count, word))
	}
	// Output:
	// 1 <nil>
	// 2 <nil>
	// 0 stage "count": crash at attempt 1: an empty word
	// 1 <nil>
}

// The pages are fetched four at a time, and printed in the order in which they were asked for.
func ExampleOrdered() {
	fetch := stage.Map("fetch", func(_ context.Context, page int) (string, error) {
		time.Sleep(time.Duration(5-page) * time.Millisecond) // the first takes longest
		return fmt.Sprint("page ", page), nil
	}, stage.Ordered(), stage.Workers(4, 4), stage.Batch(1))
	show := stage.Sink("show", func(_ context.Context, page string) error {
		fmt.Println(page)
		return nil
	}, stage.Workers(1, 1))
	stop := must(fetch.To(show))
	for page := range 5 {
		_ = fetch.Submit(context.Background(), page)
	}
	stop()
	// Output:
	// page 0
	// page 1
	// page 2
	// page 3
	// page 4
}

// A command that crashes its handler may be tried again. With Crashed as the If of the policy, a command that the handler
// answers with an error is not.
func ExampleRetry() {
	flaky := stage.Func("flaky", func(ctx context.Context, word string) behaviour.Outcome {
		if try := behaviour.Attempt(ctx); try < 3 {
			panic(fmt.Sprint("try ", try))
		}
		return behaviour.OK(word + " at last")
	}, stage.Retry(stage.RetryPolicy{Attempts: 3, Backoff: time.Millisecond, Jitter: 0.2, If: stage.Crashed}))
	defer must(flaky)()

	fmt.Println(stage.Call[string](context.Background(), flaky, "done"))
	// Output: done at last <nil>
}

// A ticket keeps the result of a command until the caller asks for it.
func ExampleStage_Ask() {
	divide := stage.Func("divide", func(_ context.Context, n int) behaviour.Outcome {
		if n == 0 {
			return behaviour.Error(errors.New("division by zero"))
		}
		return behaviour.OK(100 / n)
	})
	defer must(divide)()

	ctx := context.Background()
	var tickets []*stage.Ticket
	for _, n := range []int{5, 0} {
		ticket, err := divide.Ask(ctx, n) // waits for a free slot, not for the end
		if err != nil {
			fmt.Println(err)
			return
		}
		tickets = append(tickets, ticket)
	}
	for _, ticket := range tickets {
		fmt.Println(ticket.Wait(ctx))
	}
	// Output:
	// 20 <nil>
	// <nil> stage "divide": division by zero
}

// Each stage has a rule for what it does when it is full.
func ExampleOverflow() {
	held := make(chan struct{})
	busy := stage.Func("busy", func(context.Context, int) behaviour.Outcome {
		<-held
		return behaviour.OK(nil)
	}, stage.Workers(1, 1), stage.Capacity(1), stage.Overflow(overflow.Reject))
	defer must(busy)()
	defer close(held)

	ctx := context.Background()
	for n := 0; ; n++ {
		if err := busy.Submit(ctx, n); err != nil {
			fmt.Println(err, errors.Is(err, stage.ErrFull))
			return
		}
	}
	// Output: stage "busy": full true
}

// greeter is a behaviour with a version.
type greeter struct{ version, word string }

func (g greeter) Version() string { return g.version }

func (g greeter) HandleCommand(_ context.Context, name string) behaviour.Outcome {
	return behaviour.OK(g.word + " " + name)
}

func greeting(version, word string) behaviour.Factory[string] {
	return func() behaviour.Behaviour[string] { return greeter{version, word} }
}

// Upgrade replaces the behaviour of a stage while it runs. The channel is closed when the last old instance
// has finished its batch and has been stopped.
func ExampleStage_Upgrade() {
	greet := stage.Each("greet", greeting("1", "hello"))
	defer must(greet)()

	ctx := context.Background()
	fmt.Println(stage.Call[string](ctx, greet, "ann"))
	replaced, err := greet.Upgrade(ctx, greeting("2", "good day"))
	if err != nil {
		panic(err)
	}
	fmt.Println(stage.Call[string](ctx, greet, "ann"))
	<-replaced
	fmt.Println(greet.Snapshot().Version)
	// Output:
	// hello ann <nil>
	// good day ann <nil>
	// 2
}

// A handler that waits without holding its worker.
func ExampleCoroutine() {
	price := stage.Coroutine("price", func(c coroutine.Context, item string) behaviour.Outcome {
		if err := coroutine.Sleep(c, time.Millisecond); err != nil { // it may be an await, or a call of another stage
			return behaviour.Error(err)
		}
		return behaviour.OK(len(item))
	}, stage.Workers(1, 1), stage.Instances(100))
	shop := stage.Coroutine("shop", func(c coroutine.Context, items []string) behaviour.Outcome {
		sum := 0
		for _, item := range items {
			n, err := stage.Call[int](c, price, item) // suspends: c is the handler's own context
			if err != nil {
				return behaviour.Error(err)
			}
			sum += n
		}
		return behaviour.OK(sum)
	}, stage.Workers(1, 1))
	defer must(shop, price)()
	fmt.Println(stage.Call[int](context.Background(), shop, []string{"tea", "bread", "milk"}))
	// Output: 12 <nil>
}

// A server answers 503 with Retry-After if nothing is wrong with a command and there is too much to do.
func ExampleOverloaded() {
	release := make(chan struct{})
	resize := stage.Func("resize", func(context.Context, string) behaviour.Outcome {
		<-release
		return behaviour.OK(nil)
	}, stage.Workers(1, 1), stage.Capacity(1), stage.Overflow(overflow.Reject))
	defer must(resize)()
	defer close(release)

	for {
		err := resize.Submit(context.Background(), "a.jpg")
		if o, overloaded := stage.Overloaded(err); overloaded {
			fmt.Printf("503, Retry-After: %.0f, because %s\n", o.RetryAfter.Seconds(), o.Reason)
			return
		}
	}
	// Output: 503, Retry-After: 1, because full
}

// A peer that allows ten requests a second, and two at once, is asked no more often. Commands wait in the queue.
func ExampleRate() {
	ask := stage.Func("ask", func(_ context.Context, city string) behaviour.Outcome {
		return behaviour.OK("found " + city)
	}, stage.Rate(10, time.Second, 2))
	defer must(ask)()

	begin := time.Now()
	var tickets []*stage.Ticket
	for _, city := range []string{"Turin", "Oslo", "Lima", "Cork"} {
		ticket, err := ask.Ask(context.Background(), city)
		if err != nil {
			fmt.Println(err)
			return
		}
		tickets = append(tickets, ticket)
	}
	for _, ticket := range tickets {
		fmt.Println(ticket.Wait(context.Background()))
	}
	fmt.Println(time.Since(begin) >= 200*time.Millisecond, ask.Snapshot().Counts.RateWait > 0)
	// Output:
	// found Turin <nil>
	// found Oslo <nil>
	// found Lima <nil>
	// found Cork <nil>
	// true true
}

// Each host is asked once in a tenth of a second. A host with many pages delays no other.
func ExampleRateBy() {
	host := func(url string) string { h, _, _ := strings.Cut(url, "/"); return h }
	begin := time.Now()
	var fetched []string
	fetch := stage.Func("fetch", func(_ context.Context, url string) behaviour.Outcome {
		fetched = append(fetched, url)
		return behaviour.OK(nil)
	}, stage.RateBy(host, 1, 100*time.Millisecond, 1), stage.Workers(1, 1))
	stop := must(fetch)
	_, err := fetch.SubmitAll(context.Background(), "a.org/1", "a.org/2", "a.org/3", "a.org/4", "b.org/1")
	fmt.Println(err)
	stop() // which waits for all
	fmt.Println("the pages of a.org take 300 ms:", time.Since(begin) >= 300*time.Millisecond)
	fmt.Println("b.org does not wait for them:", slices.Index(fetched, "b.org/1") < slices.Index(fetched, "a.org/4"))
	// Output:
	// <nil>
	// the pages of a.org take 300 ms: true
	// b.org does not wait for them: true
}

// A middleware logs what becomes of each command, and another refuses some of them. The first is outside the second.
func ExampleMiddleware() {
	logged := func(ctx context.Context, stage string, cmd any, next behaviour.Func[any]) behaviour.Outcome {
		o := next(ctx, cmd)
		fmt.Println(stage, cmd, o.Kind())
		return o
	}
	short := func(ctx context.Context, _ string, cmd any, next behaviour.Func[any]) behaviour.Outcome {
		if len(cmd.(string)) > 5 {
			return behaviour.Error(errors.New("too long"))
		}
		return next(ctx, cmd)
	}
	shout := stage.Func("shout", func(_ context.Context, word string) behaviour.Outcome {
		return behaviour.OK(strings.ToUpper(word))
	}, stage.Middleware(logged, short))
	defer must(shout)()

	fmt.Println(stage.Call[string](context.Background(), shout, "hello"))
	fmt.Println(stage.Call[string](context.Background(), shout, "goodbye"))
	// Output:
	// shout hello ok
	// HELLO <nil>
	// shout goodbye error
	//  stage "shout": too long
}
