// Package watermill connects pipelines to brokers, with the publishers and
// subscribers of github.com/ThreeDotsLabs/watermill: Kafka, RabbitMQ, Redis,
// SQL, Google Cloud Pub/Sub, Amazon SQS and others.
//
//	sub, err := redisstream.NewSubscriber(…) // of watermill-redisstream
//	…
//	orders, err := watermill.NewSource(sub, "orders", watermill.Options[Order]{Dead: pub})
//	…
//	ship := stage.Sink("ship", watermill.Publish[Parcel](pub, "parcels", nil))
//	p, err := pipeline.New("shop", pipeline.Feed("orders", book, orders.Feed), book.To(ship), ship)
//	…
//	err = p.Run(ctx)
//	err = errors.Join(err, orders.Close(ctx), sub.Close())
//
// # How a message ends
//
// Each message is a command. It is acknowledged, nacked or made a dead letter
// when the command has ended, and all commands emitted on its way:
//
//	its command …                               the message …
//	ended well                                  is acknowledged
//	failed, and Options.Retry allows it         is nacked after a pause
//	was ended by a hard stop, or not submitted  is nacked at once
//	crashed its handler, or failed for good     becomes a dead letter: it is published to another topic, then acknowledged
//	cannot be decoded                           becomes a dead letter
//
// So a message is handled at least once, if the broker keeps unacknowledged
// messages. Without [Options.Dead] a message that would become a dead letter is
// nacked after a pause, for ever, unless the broker has a limit of its own:
// nothing is dropped unless you say so.
//
// # Order and speed
//
// Most subscribers deliver a message only when the previous one is
// acknowledged: each [Options.Subscriptions] has one message in flight, and for
// Kafka each partition. So one subscription keeps the order of the broker,
// although the stage has many workers, and more subscriptions are faster. A
// message that is retried holds up those behind it, for [stage.RetryPolicy.Max]
// at most each time. To retry without that, let the stage do it, with
// [stage.Retry]. If a subscriber delivers many messages at once, the source
// takes at most [Options.MaxInFlight] of them.
//
// # Windows
//
// A message in a window of package window is in flight until the window is
// closed. When [Options.MaxInFlight] messages are in flight and nothing has
// happened for a second in the stages behind the source, the windows that no
// time closes are closed Early. So they are when messages are in flight and no
// further one has arrived for a minute, because a subscriber does not say that
// it hands on no more before some are acknowledged. If it is one that has one
// message in flight for each subscription, set MaxInFlight to the number of
// subscriptions: then pipeline.New refuses windows that need more, and no
// minute is waited for. Or give windows a time.
//
// # A broker that is away
//
// The source waits and subscribes again, with pauses of up to five seconds,
// until its pipeline stops. The feed is "away" in the snapshot. Many
// subscribers connect again by themselves without notice, or do not end a
// subscription when its broker is gone; give the source [Options.Ping], so that
// it notices. [Dial] is for subscribers whose constructors need the broker,
// [DialPublisher] for publishers of that kind.
//
// # Logging
//
// Watermill logs by an interface of its own: give its subscribers and
// publishers NewSlogLogger(log) of Watermill.
//
// [stage.RetryPolicy.Max]: https://pkg.go.dev/github.com/golda-dev/golda/stage#RetryPolicy
// [stage.Retry]: https://pkg.go.dev/github.com/golda-dev/golda/stage#Retry
package watermill
