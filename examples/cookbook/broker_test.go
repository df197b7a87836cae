package cookbook

import (
	"context"
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	"github.com/golda-dev/golda/adapter/watermill"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

func Example_takeMessagesFromABroker() {
	bus := gochannel.NewGoChannel(gochannel.Config{Persistent: true}, nil) // or the Subscriber and the Publisher of RabbitMQ
	check(bus.Publish("orders", message.NewMessage("1", []byte(`7`)), message.NewMessage("2", []byte(`"seven"`))))

	ctx, cancel := context.WithCancel(context.Background())
	letters, err := bus.Subscribe(ctx, "orders.dead")
	check(err)
	orders, err := watermill.NewSource(bus, "orders", watermill.Options[int]{Dead: bus})
	check(err)
	square := stage.Map("square", func(_ context.Context, n int) (int, error) { return n * n, nil })
	publish := stage.Sink("publish", watermill.Publish[int](bus, "squares", nil))
	p, err := pipeline.New("squares", pipeline.Feed("orders", square, orders.Feed), square.To(publish), publish)
	check(err)
	check(p.Start(ctx))

	squares, err := bus.Subscribe(ctx, "squares")
	check(err)
	result, letter := <-squares, <-letters
	result.Ack()
	letter.Ack()
	fmt.Println(string(result.Payload), letter.Metadata.Get("golda_reason"), string(letter.Payload))
	check(p.Stop(ctx))
	check(errors.Join(orders.Close(ctx), bus.Close())) // nothing is in flight after Close
	cancel()
	// Output: 49 undecodable "seven"
}
