package main

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-redisstream/pkg/redisstream"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/redis/go-redis/v9"
)

var mill = system{
	name: "watermill", redis: true,
	what:    "Watermill's router with streams of a Redis server beside the process that works",
	durable: [2]string{"appendfsync everysec: synced once a second", "appendfsync always: each command is synced"},
	urgent:  "a topic with handlers of its own",
	gone:    "MaxIdleTime, set to 2 s",
	open:    openMill,
}

const (
	millUrgent = "urgent"
	millOthers = "others"
	millGroup  = "workers"
)

// millTopics are two streams in Redis.
type millTopics struct {
	order
	client *redis.Client
	pub    message.Publisher
	log    watermill.LoggerAdapter
}

func openMill(ctx context.Context, o order) (queue, error) {
	client := redis.NewClient(&redis.Options{Network: "unix", Addr: o.Redis, PoolSize: 8 * o.AtOnce})
	log := watermill.NewSlogLogger(errorsOnly())
	pub, err := redisstream.NewPublisher(redisstream.PublisherConfig{Client: client}, log)
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	for _, topic := range []string{millUrgent, millOthers} { // left asks for the group, also of a stream without messages
		err := client.XGroupCreateMkStream(ctx, topic, millGroup, "0").Err()
		if err != nil && !redis.HasErrorPrefix(err, "BUSYGROUP") {
			return nil, errors.Join(err, pub.Close())
		}
	}
	return &millTopics{order: o, client: client, pub: pub, log: log}, nil
}

func (m *millTopics) add(_ context.Context, j job) error {
	payload, err := json.Marshal(j)
	if err != nil {
		return err
	}
	to := millOthers
	if j.Urgent {
		to = millUrgent
	}
	return m.pub.Publish(to, message.NewMessage(j.ID, payload))
}

// work has a handler for each job at once, because a subscription gives a
// message when the one before it is acknowledged.
func (m *millTopics) work(ctx context.Context, handle func(job) error) error {
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: 10 * time.Second}, m.log)
	if err != nil {
		return err
	}
	sub, err := redisstream.NewSubscriber(redisstream.SubscriberConfig{
		Client: m.client, ConsumerGroup: millGroup, MaxIdleTime: goneAfter, ClaimInterval: goneAfter / 4,
		BlockTime: 100 * time.Millisecond, NackResendSleep: retryAfter, DisableIndefiniteInitialBlock: true,
	}, m.log)
	if err != nil {
		return err
	}
	handler := func(msg *message.Message) error {
		var j job
		if err := json.Unmarshal(msg.Payload, &j); err != nil {
			return err
		}
		return handle(j)
	}
	for k := range m.AtOnce {
		router.AddConsumerHandler(millOthers+strconv.Itoa(k), millOthers, sub, handler)
	}
	for k := range max(1, m.AtOnce/4) {
		router.AddConsumerHandler(millUrgent+strconv.Itoa(k), millUrgent, sub, handler)
	}
	return router.Run(ctx)
}

// left returns how many messages were not delivered yet, or not acknowledged.
func (m *millTopics) left(ctx context.Context) (int, error) {
	n := 0
	for _, topic := range []string{millUrgent, millOthers} {
		groups, err := m.client.XInfoGroups(ctx, topic).Result()
		if err != nil {
			return 0, err
		}
		for _, g := range groups {
			n += int(g.Pending + max(0, g.Lag))
		}
	}
	return n, nil
}

func (m *millTopics) close(context.Context) error { return m.pub.Close() }
