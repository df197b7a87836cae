package nats_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/transport"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// Order is a command.
type Order struct {
	ID     string
	Amount int
}

// One process publishes and ends. The next one handles what it finds, and would find the same if it were killed meanwhile.
func Example() {
	dir, err := os.MkdirTemp("", "shop")
	check(err)
	defer func() { _ = os.RemoveAll(dir) }()
	ctx := context.Background()

	conn, err := nats.Embed(dir, nats.Store{})
	check(err)
	orders, err := nats.NewInlet(ctx, conn, "orders", nats.Options[Order]{})
	check(err)
	check(orders.Publish(ctx, "7", Order{ID: "7", Amount: 40}))
	check(orders.Publish(ctx, "7", Order{ID: "7", Amount: 40})) // the client tried again: the message is there once
	check(orders.Publish(ctx, "8", Order{ID: "8", Amount: -1}))
	check(conn.Close(ctx))

	conn, err = nats.Embed(dir, nats.Store{})
	check(err)
	orders, err = nats.NewInlet(ctx, conn, "orders", nats.Options[Order]{
		UntilEmpty: true, // a service leaves it out
		Retry:      stage.RetryPolicy{Attempts: 2, Backoff: time.Millisecond},
	})
	check(err)
	book := stage.Sink("book", func(_ context.Context, o Order) error {
		if o.Amount < 0 {
			return errors.New("a negative amount")
		}
		fmt.Println("booked", o.ID, o.Amount)
		return nil
	})
	p, err := pipeline.New("shop", pipeline.Feed("orders", book, orders.Feed), pipeline.Logger(slog.New(slog.DiscardHandler)))
	check(err)
	check(p.Run(ctx))
	for letter, err := range orders.Letters(ctx) {
		check(err)
		fmt.Printf("dead letter %s after %d deliveries: %s\n", letter.ID, letter.Deliveries, letter.Err)
	}
	check(conn.Close(ctx))
	// Output:
	// booked 7 40
	// dead letter 8 after 2 deliveries: stage "book": a negative amount
}

// A second process of the machine reaches the store that the first one has opened. They share the messages.
func ExampleReach() {
	dir, err := os.MkdirTemp("", "shop")
	check(err)
	defer func() { _ = os.RemoveAll(dir) }()
	ctx := context.Background()

	first, err := nats.Embed(dir, nats.Store{Listen: ":0"}) // loopback, and a port that the system chooses
	check(err)
	second, err := nats.Reach(ctx, dir) // elsewhere
	check(err)
	orders, err := nats.NewInlet(ctx, second, "orders", nats.Options[Order]{})
	check(err)
	check(orders.Publish(ctx, "7", Order{ID: "7", Amount: 40}))
	check(second.Close(ctx))
	s, err := first.Status(ctx, "orders")
	check(err)
	fmt.Println(s.Pending, "message waits")
	check(first.Close(ctx))
	// Output:
	// 1 message waits
}

// The same message may be delivered twice. Its outcome is kept once.
func ExampleOnce() {
	dir, err := os.MkdirTemp("", "shop")
	check(err)
	defer func() { _ = os.RemoveAll(dir) }()
	ctx := context.Background()
	conn, err := nats.Embed(dir, nats.Store{})
	check(err)
	ledger, err := conn.Outcomes(ctx, "ledger", 0)
	check(err)
	for range 2 {
		balance, err := nats.Once(ctx, ledger, "order 7", func(context.Context) (int, error) {
			fmt.Println("called")
			return 40, nil
		})
		fmt.Println(balance, err)
	}
	check(conn.Close(ctx))
	// Output:
	// called
	// 40 <nil>
	// 40 <nil>
}

// Servers elsewhere, with the options of nats.go.
func ExampleConnect() { //nolint:testableexamples // these servers do not exist
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	conn, err := nats.Connect(ctx, "tls://one.example.com,tls://two.example.com",
		natsgo.UserCredentials("/etc/shop/nats.creds"), natsgo.RootCAs("/etc/shop/ca.pem"))
	check(err)
	orders, err := nats.NewInlet(ctx, conn, "orders", nats.Options[Order]{
		Codec: nats.JSON[Order]{Type: "order", Version: 2}, Replicas: 3, MaxBytes: 10 << 30,
	})
	check(err)
	_ = orders
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// Two processes of one program: one takes orders, the other books them. A flag says which is which; here both are in one program, with one
// connection. The stage "book" has options of its own.
func ExampleNewCarrier() {
	dir, err := os.MkdirTemp("", "shop")
	check(err)
	defer func() { _ = os.RemoveAll(dir) }()
	ctx := context.Background()
	conn, err := nats.Embed(dir, nats.Store{}) // or nats.Connect, in each process
	check(err)
	carrier := nats.NewCarrier(conn, "shop", nats.Options[any]{}, nats.Carry("book", nats.Options[Order]{MaxInFlight: 16}))

	booked := make(chan string)
	start := func(groups ...string) (*pipeline.Pipeline, *stage.Flow[Order, Order]) {
		take := stage.Map("take", func(_ context.Context, o Order) (Order, error) { return o, nil })
		book := stage.Sink("book", func(_ context.Context, o Order) error {
			booked <- fmt.Sprintln(groups, "booked", o.ID, o.Amount)
			return nil
		})
		p, err := pipeline.New("shop", take.To(book), pipeline.Assign("front", "take"), pipeline.Assign("back", "book"),
			pipeline.RunsHere(carrier, groups...))
		check(err)
		check(p.Start(ctx))
		return p, take
	}
	front, take := start("front")
	back, _ := start("back")
	check(take.Submit(ctx, Order{ID: "7", Amount: 40}))
	fmt.Print(<-booked)
	check(front.Stop(ctx))
	check(back.Stop(ctx))
	check(conn.Close(ctx))
	// Output: [back] booked 7 40
}

// A handler calls a stage that another process runs as if it ran here.
func ExampleNewCarrier_call() {
	dir, err := os.MkdirTemp("", "shop")
	check(err)
	defer func() { _ = os.RemoveAll(dir) }()
	ctx := context.Background()
	conn, err := nats.Embed(dir, nats.Store{}) // or nats.Connect, in each process
	check(err)

	start := func(groups ...string) (*pipeline.Pipeline, *stage.Stage[Order]) {
		price := stage.Func("price", func(_ context.Context, o Order) behaviour.Outcome {
			if o.Amount == 0 {
				return behaviour.Error(errNothing)
			}
			return behaviour.OK(o.Amount * 3)
		})
		take := stage.Coroutine("take", func(c coroutine.Context, o Order) behaviour.Outcome {
			cents, err := stage.Call[int](c, price, o) // it holds no worker meanwhile
			if err != nil {
				return behaviour.Error(err)
			}
			return behaviour.OK(fmt.Sprintf("%d of %s cost %d", o.Amount, o.ID, cents))
		})
		p, err := pipeline.New("shop", take, price, pipeline.Assign("front", "take"), pipeline.Assign("back", "price"),
			pipeline.RunsHere(nats.NewCarrier(conn, "shop", nats.Options[any]{}), groups...))
		check(err)
		check(p.Start(ctx))
		return p, take
	}
	back, _ := start("back")
	front, take := start("front")
	for _, o := range []Order{{"pears", 40}, {"apples", 0}} {
		text, err := stage.Call[string](ctx, take, o)
		for errors.Is(err, stage.ErrNotRunning) { // until the other process answers
			text, err = stage.Call[string](ctx, take, o)
		}
		fmt.Println(text, errors.Is(err, errNothing))
	}
	check(front.Stop(ctx))
	check(back.Stop(ctx))
	check(conn.Close(ctx))
	// Output:
	// 40 of pears cost 120 false
	//  true
}

var errNothing = errors.New("shop: there is nothing to price")

// All processes register what errors.Is is to find in errors of the others.
func init() { transport.RegisterError("shop.errNothing", errNothing) }

// Results that JSON does not keep, or that have another format, have a codec.
func ExampleCarryResult() { //nolint:testableexamples // this server does not exist
	conn, err := nats.Connect(context.Background(), "nats://nats.example.com")
	check(err)
	_ = nats.NewCarrier(conn, "shop", nats.Options[any]{}, nats.CarryResult[*timestamppb.Timestamp](nats.Proto[*timestamppb.Timestamp]{}))
}

// Tenants share an inlet by their weights: while both have messages, the paying
// one has four of the six places. So it does not wait for the backlog of the
// trial, which was there first.
func ExampleOptions_fair() {
	dir, err := os.MkdirTemp("", "shop")
	check(err)
	defer func() { _ = os.RemoveAll(dir) }()
	ctx := context.Background()
	conn, err := nats.Embed(dir, nats.Store{})
	check(err)
	weights := map[string]int{"paying": 2, "trial": 1}
	jobs, err := nats.NewInlet(ctx, conn, "jobs", nats.Options[string]{
		Fair:        func(tenant string) (key string, weight int) { return tenant, weights[tenant] },
		MaxInFlight: 6,
		UntilEmpty:  true,
	})
	check(err)
	for range 150 {
		check(jobs.Publish(ctx, "", "trial"))
	}
	for range 150 {
		check(jobs.Publish(ctx, "", "paying"))
	}
	handled := map[string]int{}
	do := stage.Sink("do", func(_ context.Context, tenant string) error {
		if handled[tenant]++; tenant == "paying" && handled[tenant] == 150 {
			fmt.Println("the trial still waits:", handled["trial"] < 150) // half of them
		}
		return nil
	}, stage.Workers(1, 1))
	p, err := pipeline.New("shop", pipeline.Feed("jobs", do, jobs.Feed), pipeline.Logger(slog.New(slog.DiscardHandler)))
	check(err)
	check(p.Run(ctx))
	check(conn.Close(ctx))
	// Output:
	// the trial still waits: true
}
