package comingfrom

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

// router.AddHandler("upper", "names", broker, "greetings", broker, greet)
func Example_watermill() {
	ctx := context.Background()
	broker := gochannel.NewGoChannel(gochannel.Config{Persistent: true}, nil) // your Subscriber and Publisher stay
	check(broker.Publish("names", message.NewMessage("1", []byte(`"ann"`))))

	names, err := watermill.NewSource(broker, "names", watermill.Options[string]{}) // JSON, unless you give a codec
	check(err)
	greet := stage.Map("greet", func(_ context.Context, name string) (string, error) { return "hello, " + name, nil },
		stage.Retry(stage.RetryPolicy{Attempts: 3})) // middleware.Retry{MaxRetries: 2}
	send := stage.Sink("send", watermill.Publish[string](broker, "greetings", nil))
	p, err := pipeline.New("router", pipeline.Feed("names", greet, names.Feed), greet.To(send))
	check(err)
	check(p.Start(ctx))

	greetings, err := broker.Subscribe(ctx, "greetings")
	check(err)
	m := <-greetings
	m.Ack()
	fmt.Println(string(m.Payload))
	check(p.Stop(ctx)) // acknowledges what has ended
	check(errors.Join(names.Close(ctx), broker.Close()))
	// Output: "hello, ann"
}
