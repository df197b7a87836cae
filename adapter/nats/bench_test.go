package nats_test

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// publishers is how many goroutines publish at once.
const publishers = 16

// BenchmarkQueue has messages published, handled and acknowledged at the same time. One operation is one message, from the call that
// publishes it until the server has handled its acknowledgement. By golda: an
// inlet and a stage; by fair: an inlet that a hundred tenants share. By plain:
// nats.go with a consumer, the same codec, ID and limits. By ring: a stage
// alone, whose queue is in memory and does not survive.
//
//	go test -run '^$' -bench Queue -benchtime 20000x -count 5 ./adapter/nats
func BenchmarkQueue(b *testing.B) {
	b.Run("store=none/by=ring", benchRing)
	for name, s := range map[string]struct {
		store  nats.Store
		memory bool
	}{
		"memory":   {nats.Store{}, true},
		"interval": {nats.Store{}, false},
		"always":   {nats.Store{SyncAlways: true}, false},
	} {
		b.Run("store="+name+"/by=golda", func(b *testing.B) { benchGolda(b, s.store, nats.Options[Order]{Memory: s.memory}) })
		b.Run("store="+name+"/by=fair", func(b *testing.B) {
			benchGolda(b, s.store, nats.Options[Order]{Memory: s.memory, Fair: hundredTenants})
		})
		b.Run("store="+name+"/by=plain", func(b *testing.B) { benchPlain(b, s.store, s.memory) })
	}
}

// publishAll publishes all messages of a benchmark.
func publishAll(b *testing.B, publish func(ctx context.Context, n int) error) {
	b.Helper()
	var next atomic.Int64
	var all sync.WaitGroup
	for range publishers {
		all.Go(func() {
			for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
				if err := publish(b.Context(), int(n)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

// handled counts the messages, and closes done at the last.
type handled struct {
	n    atomic.Int64
	most int64
	done chan struct{}
}

func newHandled(b *testing.B) *handled {
	b.Helper()
	return &handled{most: int64(b.N), done: make(chan struct{})}
}

func (h *handled) one() {
	if h.n.Add(1) == h.most {
		close(h.done)
	}
}

// acknowledge acknowledges a message, and waits at the last one until the server
// has handled all acknowledgements: it handles them in the order in which they
// are sent.
func (h *handled) acknowledge(ctx context.Context, m jetstream.Msg) error {
	if h.n.Load() == h.most-1 {
		return m.DoubleAck(ctx)
	}
	return m.Ack()
}

func benchRing(b *testing.B) {
	h := newHandled(b)
	count := stage.Sink("count", func(context.Context, Order) error { h.one(); return nil })
	p, err := pipeline.New("bench", count, quiet)
	require.NoError(b, err)
	require.NoError(b, p.Start(b.Context()))
	b.ResetTimer()
	publishAll(b, func(ctx context.Context, n int) error { return count.Submit(ctx, Order{strconv.Itoa(n), n}) })
	<-h.done
	b.StopTimer()
	require.NoError(b, p.Stop(b.Context()))
}

// hundredTenants share an inlet by their weights, of 1 to 4.
func hundredTenants(o Order) (tenant string, weight int) {
	n := o.Amount % 100
	return strconv.Itoa(n), 1 + n%4
}

func benchGolda(b *testing.B, s nats.Store, options nats.Options[Order]) {
	b.Helper()
	orders := inlet(b, embed(b, b.TempDir(), s), "orders", options)
	count := stage.Sink("count", func(context.Context, Order) error { return nil })
	p := newPipeline(b, count, orders.Feed)
	b.ResetTimer()
	publishAll(b, func(ctx context.Context, n int) error {
		id := strconv.Itoa(n)
		return orders.Publish(ctx, id, Order{id, n})
	})
	for orders.Counts().Acknowledged < uint64(b.N) {
		time.Sleep(time.Millisecond)
	}
	b.StopTimer()
	require.NoError(b, p.Stop(b.Context()))
}

func benchPlain(b *testing.B, s nats.Store, memory bool) {
	b.Helper()
	js := embed(b, b.TempDir(), s).JetStream()
	storage := jetstream.FileStorage
	if memory {
		storage = jetstream.MemoryStorage
	}
	stream, err := js.CreateStream(b.Context(), jetstream.StreamConfig{
		Name: "orders", Subjects: []string{"orders"}, Retention: jetstream.WorkQueuePolicy, Discard: jetstream.DiscardNew, Storage: storage,
	})
	require.NoError(b, err)
	consumer, err := stream.CreateConsumer(b.Context(), jetstream.ConsumerConfig{
		Durable: "plain", AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: 1 << 16,
	})
	require.NoError(b, err)
	h := newHandled(b)
	consuming, err := consumer.Consume(func(m jetstream.Msg) {
		var o Order
		if err := json.Unmarshal(m.Data(), &o); err != nil {
			b.Error(err)
		}
		if err := h.acknowledge(b.Context(), m); err != nil {
			b.Error(err)
		}
		h.one()
	}, jetstream.PullMaxMessages(1024))
	require.NoError(b, err)
	b.ResetTimer()
	publishAll(b, func(ctx context.Context, n int) error {
		id := strconv.Itoa(n)
		data, err := json.Marshal(Order{id, n})
		if err == nil {
			_, err = js.Publish(ctx, "orders", data, jetstream.WithMsgID(id))
		}
		return err
	})
	<-h.done
	b.StopTimer()
	consuming.Stop()
	<-consuming.Closed()
}

// BenchmarkPublish publishes from one goroutine, which waits for the server each time: to the server inside this process, and
// to a cluster of three servers of Debian's package on loopback, each of which keeps the messages.
//
//	go test -run '^$' -bench Publish$ -benchtime 5000x -count 5 ./adapter/nats
func BenchmarkPublish(b *testing.B) {
	b.Run("server=embedded", func(b *testing.B) { benchPublish(b, embed(b, b.TempDir(), nats.Store{}), 1) })
	b.Run("server=cluster", func(b *testing.B) {
		benchPublish(b, connect(b, strings.Join(urls(startCluster(b)), ",")), 3)
	})
}

func benchPublish(b *testing.B, conn *nats.Conn, replicas int) {
	b.Helper()
	orders := inlet(b, conn, "orders", nats.Options[Order]{Replicas: replicas})
	took := make([]time.Duration, b.N)
	b.ResetTimer()
	for n := range b.N {
		id := strconv.Itoa(n)
		begin := time.Now()
		require.NoError(b, orders.Publish(b.Context(), id, Order{id, n}))
		took[n] = time.Since(begin)
	}
	b.StopTimer()
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "µs/median")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "µs/p99")
}
