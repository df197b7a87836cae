package stage_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/coordination/guard"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/letters"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/queue"
	"github.com/golda-dev/golda/stage/route"
)

// router is a behaviour with two ports. The pipeline wires them, and draws them, since the stage declares them with Out.
type router struct{ even, odd *behaviour.Port[int] }

func (r *router) HandleCommand(_ context.Context, n int) behaviour.Outcome {
	if n%2 == 0 {
		return behaviour.Forward(r.even, n)
	}
	return behaviour.Forward(r.odd, n)
}

func ExampleNew() {
	r := &router{behaviour.NewPort[int]("even"), behaviour.NewPort[int]("odd")}
	route := stage.New("route", r, stage.Out(r.even, r.odd))
	half := stage.Map("half", func(_ context.Context, n int) (int, error) { return n / 2, nil })
	next := stage.Map("next", func(_ context.Context, n int) (int, error) { return 3*n + 1, nil })
	defer must(route, half, next, pipeline.Wire(r.even, half), pipeline.Wire(r.odd, next))()

	for n := 6; n != 1; {
		n, _ = stage.Call[int](context.Background(), route, n)
		fmt.Print(n, " ")
	}
	// Output: 3 10 5 16 8 4 2 1
}

// Options that several stages share are defaults. An option is given once beside them.
func ExampleDefaults() {
	common := stage.Defaults(stage.Workers(1, 8), stage.Timeout(time.Second))
	double := func(_ context.Context, n int) (int, error) { return 2 * n, nil }
	_, err := pipeline.New("example",
		stage.Map("quick", double, common),
		stage.Map("slow", double, common, stage.Timeout(time.Minute)),
	)
	fmt.Println(err)

	_, err = pipeline.New("example", stage.Map("twice", double, stage.Timeout(time.Second), stage.Timeout(time.Minute)))
	fmt.Println(err)
	// Output:
	// <nil>
	// stage "twice": Timeout: is given twice, by options 1 and 2: keep one, or give the first as stage.Defaults
}

// A chain of flows is a flow. Flows whose types do not fit do not compile.
func ExampleChain() {
	trim := stage.Map("trim", func(_ context.Context, s string) (string, error) { return strings.TrimSpace(s), nil })
	filled := stage.Filter("filled", func(_ context.Context, s string) (bool, error) { return s != "", nil })
	count := stage.Map("count", func(_ context.Context, s string) (int, error) { return len(s), nil })
	square := stage.Map("square", func(_ context.Context, n int) (int, error) { return n * n, nil })

	lengths := stage.Chain(stage.Chain(trim, filled), count)
	squares := stage.Chain(lengths, square)
	defer must(squares)()
	fmt.Println(squares.Call(context.Background(), " four "))
	fmt.Println(squares.Call(context.Background(), "  ")) // not kept: the zero result
	// Output:
	// 16 <nil>
	// 0 <nil>
}

// A function picks the stage of each result: route.ByKey sends all results with the same key to one stage; route.RoundRobin takes the stages in turn.
func ExampleFlow_Route_pick() {
	printer := func(name string) *stage.Flow[string, struct{}] {
		return stage.Sink(name, func(_ context.Context, word string) error {
			fmt.Println(name, word)
			return nil
		}, stage.Workers(1, 1))
	}
	words := stage.Map("words", func(_ context.Context, w string) (string, error) { return w, nil }, stage.Workers(1, 1))
	left, right := printer("left"), printer("right")
	defer must(words.Route(route.RoundRobin[string](), left, right))()
	for _, w := range []string{"a", "b", "c", "d"} {
		_, _ = words.Call(context.Background(), w)
	}
	pick := route.ByKey(strings.ToLower)
	fmt.Println(pick("ann", 2) == pick("Ann", 2))
	// Output:
	// left a
	// right b
	// left c
	// right d
	// true
}

// inserter inserts many rows at once.
type inserter struct{ inserted int }

func (i *inserter) HandleCommand(ctx context.Context, row string) behaviour.Outcome {
	return i.HandleBatch(ctx, []string{row})[0]
}

func (i *inserter) HandleBatch(_ context.Context, rows []string) []behaviour.Outcome {
	i.inserted += len(rows)
	fmt.Println("INSERT", strings.Join(rows, ", "))
	return make([]behaviour.Outcome, len(rows)) // the zero outcome is OK(nil)
}

// A batch is full with three rows. One that is not full waits a while for more.
func ExampleBatch() {
	insert := stage.New("insert", &inserter{}, stage.Workers(1, 1), stage.Batch(3), stage.Linger(50*time.Millisecond))
	p, err := pipeline.New("rows", insert, quiet,
		pipeline.Feed("rows", insert, source.Slice([]string{"a", "b", "c", "d", "e"})))
	if err == nil {
		err = p.Run(context.Background())
	}
	fmt.Println(err)
	// Output:
	// INSERT a, b, c
	// INSERT d, e
	// <nil>
}

// A handler that waits longer than its time limit fails, if it watches its context. The stage abandons the worker of one that
// does not when the grace is over. Blocking says that the handlers wait rather than compute.
func ExampleTimeout() {
	ask := stage.Map("ask", func(ctx context.Context, host string) (string, error) {
		if host == "slow.example" {
			<-ctx.Done() // an HTTP client does this
			return "", context.Cause(ctx)
		}
		return "200 OK", nil
	}, stage.Timeout(20*time.Millisecond), stage.Grace(time.Second), stage.Blocking())
	defer must(ask)()
	for _, host := range []string{"slow.example", "fast.example"} {
		answer, err := ask.Call(context.Background(), host)
		fmt.Printf("%q %v\n", answer, errors.Is(err, stage.ErrTimeout))
	}
	// Output:
	// "" true
	// "200 OK" false
}

type quote struct {
	price int
	until time.Time
}

// TTL bounds how long a command may wait in the queue. ExpiresAt takes the time from the command.
func ExampleTTL() {
	buy := stage.Sink("buy", func(_ context.Context, q quote) error {
		fmt.Println("bought at", q.price)
		return nil
	}, stage.TTL(time.Minute), stage.ExpiresAt(func(q quote) time.Time { return q.until }))
	defer must(buy)()
	ctx := context.Background()
	_, err := buy.Call(ctx, quote{7, time.Now().Add(-time.Second)})
	fmt.Println(errors.Is(err, stage.ErrExpired))
	_, err = buy.Call(ctx, quote{8, time.Now().Add(time.Hour)})
	fmt.Println(err)
	// Output:
	// true
	// bought at 8
	// <nil>
}

type job struct {
	name    string
	urgency int
}

// The most urgent of the waiting jobs is printed first.
func ExampleDiscipline() {
	printer := stage.Sink("printer", func(_ context.Context, j job) error {
		fmt.Println(j.name)
		return nil
	}, stage.Workers(1, 1), stage.Discipline(queue.PriorityOf(func(j job) int { return j.urgency })))
	p, err := pipeline.New("printing", printer, quiet)
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	err = errors.Join(p.Start(ctx), p.Pause(printer))
	for _, j := range []job{{"thesis", 1}, {"letter", 3}, {"article", 2}} {
		err = errors.Join(err, printer.Submit(ctx, j))
	}
	fmt.Println(errors.Join(err, p.Resume(printer), p.Stop(ctx)))
	// Output:
	// letter
	// article
	// thesis
	// <nil>
}

type photo struct{ album string }

func (p photo) Album() string { return p.album }

// The albums take turns, although the photos of one have come first.
func ExampleFair() {
	upload := stage.Sink("upload", func(_ context.Context, p photo) error {
		fmt.Println(p.album)
		return nil
	}, stage.Workers(1, 1), stage.Fair(photo.Album, nil, 0))
	p, err := pipeline.New("photos", upload, quiet)
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	err = errors.Join(p.Start(ctx), p.Pause(upload))
	for _, album := range []string{"holidays", "holidays", "holidays", "cats", "cats", "birthday"} {
		err = errors.Join(err, upload.Submit(ctx, photo{album}))
	}
	fmt.Println(errors.Join(err, p.Resume(upload), p.Stop(ctx)))
	// Output:
	// holidays
	// cats
	// birthday
	// holidays
	// cats
	// holidays
	// <nil>
}

// guestbook counts the visits of one person.
type guestbook struct {
	person string
	n      int
}

func (v *guestbook) HandleCommand(context.Context, string) behaviour.Outcome {
	v.n++
	return behaviour.OK(v.n)
}

func (v *guestbook) Stop() { fmt.Println(v.person, "came", v.n, "times") }

// At most one instance is kept when no handler uses it. The one that was used first goes; its Stop could save what it has.
func ExamplePassivate() {
	count := stage.Keyed("count", func(person string) string { return person },
		func(person string) *guestbook { return &guestbook{person: person} },
		stage.Workers(1, 1), stage.Passivate(time.Hour, 1))
	stop := must(count)
	ctx := context.Background()
	for _, person := range []string{"ann", "ann", "bob"} {
		_, _ = stage.Call[int](ctx, count, person)
	}
	fmt.Println("end")
	stop()
	// Output:
	// ann came 2 times
	// end
	// bob came 1 times
}

// A stage endures one crash for each worker, and here two more, if no command succeeds in between. Then it fails, and its
// pipeline gives up.
func ExampleRestart() {
	save := stage.Sink("save", func(context.Context, string) error { panic("the database is gone") },
		stage.Workers(1, 1), stage.Restart(stage.RestartPolicy{Limit: 2, Backoff: time.Millisecond}))
	p, err := pipeline.New("saving", save, quiet, pipeline.Feed("rows", save, source.Slice(make([]string, 1000))))
	if err == nil {
		err = p.Run(context.Background())
	}
	fmt.Println(errors.As(err, new(*stage.BrokenError)), p.Ending())
	// Output: true gave up
}

func ExampleGuard() {
	var printed atomic.Int64
	p := stage.Func("print", func(context.Context, any) behaviour.Outcome {
		printed.Add(1)
		return behaviour.OK(nil)
	}, stage.Guard("Report", func(count func(string) guard.Counters) bool {
		return count("Report").Current < 2 // reports are heavy; any number of other jobs may be printed beside two of them
	}))
	stop := must(p)
	for i := range 10 {
		if err := p.Submit(context.Background(), Report{Pages: 100 * i}); err != nil {
			fmt.Println(err)
		}
	}
	stop()
	fmt.Println(printed.Load(), "printed;", p.Snapshot().Methods[0].Method, p.Snapshot().Methods[0].Completed)
	// Output: 10 printed; Report 10
}

// Report is a job for the printer: the name of the type is the method that guards know it by.
type Report struct{ Pages int }

// bookedAccount is the instance of an account.
type bookedAccount struct{}

func (bookedAccount) HandleCommand(_ context.Context, cents int) behaviour.Outcome {
	if cents == 0 {
		return behaviour.Error(errors.New("nothing to book"))
	}
	fmt.Println("booked", cents)
	return behaviour.OK(nil)
}

// The second booking of the account fails, and the third waits for its letter.
func ExampleParkOnFailure() {
	book := stage.Keyed("book", func(int) string { return "alice" }, func(string) bookedAccount { return bookedAccount{} }, stage.ParkOnFailure())
	failed := make(chan struct{}, 1)
	p, err := pipeline.New("ledger", book, pipeline.Failures(func(stage.DeadLetter) { failed <- struct{}{} }))
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	if err := p.Start(ctx); err != nil {
		panic(err)
	}
	_, _ = book.SubmitAll(ctx, 1, 0, 3)
	<-failed
	for _, l := range p.Failures().List(letters.Filter{Parked: true}) {
		_ = p.Failures().RetryAs(ctx, l.ID, 2) // corrected
	}
	if err := p.Stop(ctx); err != nil {
		panic(err)
	}
	// Output:
	// booked 1
	// booked 2
	// booked 3
}
