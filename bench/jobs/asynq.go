package main

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/hibiken/asynq"
)

var asynqQueue = system{
	name: "asynq", redis: true,
	what:    "asynq with a Redis server beside the process that works",
	durable: [2]string{"appendfsync everysec: synced once a second", "appendfsync always: each command is synced"},
	urgent:  "a queue of weight 10, the other has 1",
	gone:    "a lease of 30 s, and 30 s more, by a process that looks once a minute; no setting",
	open:    openAsynq,
}

// The weights of asynq's two queues.
var asynqWeights = map[string]int{"urgent": 10, "others": 1}

// asynqQueues are two queues in Redis.
type asynqQueues struct {
	order
	client *asynq.Client
	asks   *asynq.Inspector
}

func openAsynq(_ context.Context, o order) (queue, error) {
	at := asynq.RedisClientOpt{Network: "unix", Addr: o.Redis}
	return &asynqQueues{order: o, client: asynq.NewClient(at), asks: asynq.NewInspector(at)}, nil
}

func (a *asynqQueues) add(ctx context.Context, j job) error {
	payload, err := json.Marshal(j)
	if err != nil {
		return err
	}
	to := "others"
	if j.Urgent {
		to = "urgent"
	}
	_, err = a.client.EnqueueContext(ctx, asynq.NewTask("job", payload), asynq.Queue(to), asynq.TaskID(j.ID), asynq.MaxRetry(attempts))
	return err
}

func (a *asynqQueues) work(ctx context.Context, handle func(job) error) error {
	server := asynq.NewServer(asynq.RedisClientOpt{Network: "unix", Addr: a.Redis}, asynq.Config{
		Concurrency: a.AtOnce, Queues: asynqWeights, LogLevel: asynq.ErrorLevel, ShutdownTimeout: 10 * time.Second,
		TaskCheckInterval: 10 * time.Millisecond, DelayedTaskCheckInterval: time.Second,
		RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return retryAfter },
	})
	err := server.Start(asynq.HandlerFunc(func(_ context.Context, t *asynq.Task) error {
		var j job
		if err := json.Unmarshal(t.Payload(), &j); err != nil {
			return err
		}
		return handle(j)
	}))
	if err != nil {
		return err
	}
	<-ctx.Done()
	server.Shutdown()
	return nil
}

func (a *asynqQueues) left(context.Context) (int, error) {
	names, err := a.asks.Queues() // a queue is there when it has had a job
	if err != nil {
		return 0, err
	}
	n := 0
	for _, name := range names {
		info, err := a.asks.GetQueueInfo(name)
		if err != nil {
			return 0, err
		}
		n += info.Size // pending, active, scheduled, in retry, archived
	}
	return n, nil
}

func (a *asynqQueues) close(context.Context) error {
	return errors.Join(a.client.Close(), a.asks.Close())
}
