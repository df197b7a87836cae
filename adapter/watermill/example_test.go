package watermill_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	"github.com/golda-dev/golda/adapter/watermill"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// Order is a command.
type Order struct {
	ID     string
	Amount int
}

// Orders come from a topic, and parcels go to another one. An order that cannot be booked becomes a dead letter. GoChannel is Watermill's
// broker in memory; with RabbitMQ or Kafka only the first line is another one.
func Example() {
	ctx := context.Background()
	bus := gochannel.NewGoChannel(gochannel.Config{Persistent: true}, nil)
	check(bus.Publish("orders", message.NewMessage("1", []byte(`{"ID": "7", "Amount": 40}`))))
	parcels, err := bus.Subscribe(ctx, "parcels")
	check(err)
	letters, err := bus.Subscribe(ctx, "orders.dead")
	check(err)

	orders, err := watermill.NewSource(bus, "orders", watermill.Options[Order]{
		Dead:  bus,
		Retry: stage.RetryPolicy{Attempts: 2, Backoff: time.Millisecond},
	})
	check(err)
	book := stage.Map("book", func(_ context.Context, o Order) (string, error) {
		if o.Amount < 0 {
			return "", errors.New("a negative amount")
		}
		return "parcel of order " + o.ID, nil
	})
	ship := stage.Sink("ship", watermill.Publish[string](bus, "parcels", nil))
	p, err := pipeline.New("shop", pipeline.Feed("orders", book, orders.Feed), book.To(ship), ship,
		pipeline.Logger(slog.New(slog.DiscardHandler)))
	check(err)
	check(p.Start(ctx))

	parcel := <-parcels
	parcel.Ack()
	fmt.Println(string(parcel.Payload))
	check(bus.Publish("orders", message.NewMessage("2", []byte(`{"ID": "8", "Amount": -1}`))))
	letter := <-letters
	letter.Ack()
	fmt.Println("dead letter:", string(letter.Payload), letter.Metadata.Get("reason_poisoned"))

	check(p.Stop(ctx))
	check(orders.Close(ctx)) // nothing is in flight after it
	fmt.Printf("%+v\n", orders.Counts())
	check(bus.Close())
	// Output:
	// "parcel of order 7"
	// dead letter: {"ID": "8", "Amount": -1} stage "book": a negative amount
	// {Delivered:3 Acknowledged:1 GivenBack:1 DeadLettered:1 InFlight:0}
}

// The constructor of a subscriber that fails while the broker is away. The pipeline starts nevertheless.
func ExampleDial() {
	bus := gochannel.NewGoChannel(gochannel.Config{Persistent: true}, nil)
	check(bus.Publish("orders", message.NewMessage("1", []byte(`{"ID": "7"}`))))
	attempts := 0
	sub := watermill.Dial(func() (message.Subscriber, error) { // amqp.NewSubscriber(config, logger), for example
		if attempts++; attempts < 3 {
			return nil, errors.New("connection refused")
		}
		return bus, nil
	})
	orders, err := watermill.NewSource(sub, "orders", watermill.Options[Order]{})
	check(err)
	booked := make(chan Order)
	book := stage.Sink("book", func(_ context.Context, o Order) error { booked <- o; return nil })
	p, err := pipeline.New("shop", pipeline.Feed("orders", book, orders.Feed))
	check(err)
	check(p.Start(context.Background()))
	fmt.Println("booked", (<-booked).ID, "after", attempts, "attempts")
	check(p.Stop(context.Background()))
	check(orders.Close(context.Background()))
	check(sub.Close())
	// Output: booked 7 after 3 attempts
}

// The constructor of a publisher that fails while the broker is away. The stage tries the command again.
func ExampleDialPublisher() {
	ctx := context.Background()
	bus := gochannel.NewGoChannel(gochannel.Config{OutputChannelBuffer: 1}, nil)
	parcels, err := bus.Subscribe(ctx, "parcels")
	check(err)
	attempts := 0
	pub := watermill.DialPublisher(func() (message.Publisher, error) { // amqp.NewPublisher(config, logger), for example
		if attempts++; attempts < 3 {
			return nil, errors.New("connection refused")
		}
		return bus, nil
	})
	ship := stage.Sink("ship", watermill.Publish[string](pub, "parcels", nil),
		stage.Retry(stage.RetryPolicy{Attempts: 10, Backoff: time.Millisecond}))
	p, err := pipeline.New("shop", ship, pipeline.Logger(slog.New(slog.DiscardHandler)))
	check(err)
	check(p.Start(ctx))
	check(ship.Submit(ctx, "parcel 7"))
	parcel := <-parcels
	parcel.Ack()
	fmt.Println(string(parcel.Payload), "after", attempts, "attempts")
	check(p.Stop(ctx))
	check(pub.Close())
	// Output: "parcel 7" after 3 attempts
}

// A stage that takes up to a hundred commands at once, and publishes them with one call.
func ExamplePublishBatch() {
	ctx := context.Background()
	bus := gochannel.NewGoChannel(gochannel.Config{OutputChannelBuffer: 3}, nil)
	parcels, err := bus.Subscribe(ctx, "parcels")
	check(err)
	encode := func(o Order) (*message.Message, error) {
		return message.NewMessage(o.ID, []byte("parcel "+o.ID)), nil // the same UUID if it is published again
	}
	ship := stage.New("ship", watermill.PublishBatch(bus, "parcels", encode), stage.Batch(100))
	p, err := pipeline.New("shop", ship)
	check(err)
	check(p.Start(ctx))
	check(ship.Submit(ctx, Order{ID: "7"}))
	parcel := <-parcels
	parcel.Ack()
	fmt.Println(parcel.UUID, string(parcel.Payload))
	check(p.Stop(ctx))
	check(bus.Close())
	// Output: 7 parcel 7
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
