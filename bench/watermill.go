package main

import (
	"context"
	"fmt"
	"sync"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
)

// Watermill's publish and subscribe over Go channels: here a topic for each
// stage, whose workers share a subscription and publish their results to the
// next topic. Watermill is made for messages between processes: each has a
// UUID, metadata and bytes, and is acknowledged. A hop includes the cost of
// that.
//
// It guarantees: a message is acknowledged or sent again. A publisher does not
// wait: a goroutine for each message does, so nothing is bounded and order is
// not kept. A subscription delivers its next message when the last one was
// acknowledged. So that several workers can work at once, a message is
// acknowledged before the work, and is lost if that fails. A panic ends the
// process, unless its router with the Recoverer is used.
var watermillGoChannel = implementation{
	name: "watermill",
	what: "watermill's gochannel, a topic for each stage",
	promise: promise{
		bound: "unbounded: goroutines wait",
		order: "not kept",
		crash: processDies,
	},
	pointers: watermillLine[*parcel],
	blocks:   watermillLine[block],
	boxes:    watermillLine[*block],
}

func watermillLine[C any](s shape[C]) (line[C], error) {
	w := watermillBus[C]{shape: s, bus: gochannel.NewGoChannel(
		gochannel.Config{OutputChannelBuffer: int64(s.capacity)}, watermill.NopLogger{})}
	ctx := context.Background()
	var workers sync.WaitGroup
	for i, st := range s.steps {
		for lane := range st.width() {
			messages, err := w.bus.Subscribe(ctx, topic(i, lane))
			if err != nil {
				return line[C]{}, err
			}
			for range st.workers {
				workers.Go(func() { w.work(i, messages) })
			}
		}
	}
	return line[C]{
		submit: func(c C) error { return w.publish(topic(0, 0), s.codec.encode(c)) },
		stop: func() {
			_ = w.bus.Close()
			workers.Wait()
		},
	}, nil
}

func topic(step, lane int) string { return fmt.Sprintf("stage-%d-%d", step, lane) }

type watermillBus[C any] struct {
	shape[C]

	bus *gochannel.GoChannel
}

func (w watermillBus[C]) publish(topic string, payload message.Payload) error {
	return w.bus.Publish(topic, message.NewMessage(watermill.NewUUID(), payload))
}

func (w watermillBus[C]) work(i int, messages <-chan *message.Message) {
	topics := make([]string, 0, 1)
	if !w.last(i) {
		for lane := range w.steps[i+1].width() {
			topics = append(topics, topic(i+1, lane))
		}
	}
	for msg := range messages {
		msg.Ack()
		c := w.codec.decode(msg.Payload)
		w.steps[i].do(c)
		if w.last(i) {
			w.end(c)
			continue
		}
		_ = w.publish(topics[w.lane(i+1, c)], msg.Payload) // it fails once the bus is closed, when all commands have ended
	}
}
