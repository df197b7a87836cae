//go:build unix

package brokertest

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	mill "github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-amqp/v3/pkg/amqp"
	"github.com/ThreeDotsLabs/watermill-redisstream/pkg/redisstream"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/watermill"
)

// broker is a broker for one test.
type broker interface {
	// server returns where it is, or "" if it is in this process.
	server() string
	// publisher and subscriber return new ones, which are closed at the end of the test. Idle is after which time what a process held that has
	// died is delivered to another one.
	publisher(t testing.TB) message.Publisher
	subscriber(t testing.TB, idle time.Duration) message.Subscriber
	// ping asks the broker for a sign of life.
	ping(ctx context.Context) error
	// kill kills the server at once, and start starts it again with what it has stored.
	kill()
	start(t testing.TB)
}

// brokers has what makes the broker of a test.
var brokers = map[string]func(t testing.TB) broker{
	"GoChannel": newMemory,
	"Redis":     newRedis,
	"RabbitMQ":  newRabbit,
}

// attach returns a broker that runs.
func attach(name, server string) broker {
	switch name {
	case "Redis":
		return &redisBroker{address: server}
	default:
		return &rabbit{address: server}
	}
}

// long is longer than any test, for what must not happen in one.
const long = time.Hour

// memory is a GoChannel.
type memory struct{ *gochannel.GoChannel }

func newMemory(t testing.TB) broker {
	g := gochannel.NewGoChannel(gochannel.Config{Persistent: true}, nil)
	t.Cleanup(func() { require.NoError(t, g.Close()) })
	return memory{g}
}

func (m memory) server() string                                          { return "" }
func (m memory) publisher(testing.TB) message.Publisher                  { return m }
func (m memory) subscriber(testing.TB, time.Duration) message.Subscriber { return m }
func (m memory) ping(context.Context) error                              { return nil }
func (m memory) kill()                                                   {}
func (m memory) start(testing.TB)                                        {}

// redisBroker is a redis-server that writes each message to the disk before it answers.
type redisBroker struct {
	*process

	address string
	dir     string
}

func newRedis(t testing.TB) broker {
	needs(t, "redis-server", "redis-server")
	b := &redisBroker{address: fmt.Sprintf("127.0.0.1:%d", freePort(t)), dir: t.TempDir()}
	b.start(t)
	t.Cleanup(func() { b.kill() })
	return b
}

func (b *redisBroker) server() string { return b.address }

func (b *redisBroker) start(t testing.TB) {
	host, port, err := net.SplitHostPort(b.address)
	require.NoError(t, err)
	b.process, err = run(b.dir, nil, "redis-server", "--bind", host, "--port", port, "--dir", b.dir, "--save", "",
		"--appendonly", "yes", "--appendfsync", "always")
	require.NoError(t, err)
	require.NoError(t, b.answer(func() error { return b.ping(context.Background()) }))
}

func (b *redisBroker) client() *redis.Client {
	return redis.NewClient(&redis.Options{Addr: b.address, PoolSize: 300, DialTimeout: 30 * time.Second, MaxRetries: -1})
}

func (b *redisBroker) ping(ctx context.Context) error {
	c := b.client()
	defer func() { _ = c.Close() }()
	return c.Ping(ctx).Err()
}

func (b *redisBroker) publisher(t testing.TB) message.Publisher {
	pub, err := redisstream.NewPublisher(redisstream.PublisherConfig{Client: b.client()}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, pub.Close()) })
	return pub
}

func (b *redisBroker) subscriber(t testing.TB, idle time.Duration) message.Subscriber {
	sub, err := redisstream.NewSubscriber(redisstream.SubscriberConfig{
		Client: b.client(), ConsumerGroup: "golda", MaxIdleTime: idle, ClaimInterval: min(idle, 5*time.Second), BlockTime: 20 * time.Millisecond,
		DisableIndefiniteInitialBlock: true, ShouldStopOnReadErrors: func(error) bool { return true },
	}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, sub.Close()) })
	return sub
}

// rabbit is a RabbitMQ with durable queues. It takes some seconds to start, so the tests share one, and each has queues of its own.
type rabbit struct {
	*process

	address string
	dir     string
	ports   [2]int // of the port mapper and of the protocol between nodes
	mapper  *process
}

var theRabbit struct {
	mu sync.Mutex // guards b
	b  *rabbit
}

func newRabbit(t testing.TB) broker {
	needs(t, "rabbitmq-server", "/usr/lib/rabbitmq/bin/rabbitmq-server", "epmd")
	theRabbit.mu.Lock()
	defer theRabbit.mu.Unlock()
	if theRabbit.b == nil {
		dir, err := os.MkdirTemp("", "rabbit")
		require.NoError(t, err)
		b := &rabbit{address: fmt.Sprintf("127.0.0.1:%d", freePort(t)), dir: dir, ports: [2]int{freePort(t), freePort(t)}}
		b.start(t)
		theRabbit.b = b
	}
	b := theRabbit.b
	t.Cleanup(func() {
		if b.ended() { // the test has failed
			b.start(t)
		}
	})
	return b
}

// endRabbit ends the RabbitMQ of the tests.
func endRabbit() {
	if b := theRabbit.b; b != nil {
		b.kill()
		b.mapper.kill()
		_ = os.RemoveAll(b.dir)
	}
}

func (b *rabbit) server() string { return b.address }

func (b *rabbit) start(t testing.TB) {
	host, port, err := net.SplitHostPort(b.address)
	require.NoError(t, err)
	for name, content := range map[string]string{
		"rabbitmq.conf": "listeners.tcp.default = " + b.address + "\ndisk_free_limit.absolute = 1MB\n", "env.conf": "", "plugins": "[].\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(b.dir, name), []byte(content), 0o600))
	}
	at := func(name string) string { return filepath.Join(b.dir, name) }
	env := []string{
		"HOME=" + b.dir, "RABBITMQ_NODENAME=golda@localhost", "RABBITMQ_NODE_IP_ADDRESS=" + host, "RABBITMQ_NODE_PORT=" + port,
		fmt.Sprint("RABBITMQ_DIST_PORT=", b.ports[1]), fmt.Sprint("ERL_EPMD_PORT=", b.ports[0]), "ERL_EPMD_ADDRESS=" + host,
		"RABBITMQ_MNESIA_BASE=" + at("mnesia"), "RABBITMQ_LOG_BASE=" + at("log"), "RABBITMQ_LOGS=-", "RABBITMQ_PID_FILE=" + at("pid"),
		"RABBITMQ_CONFIG_FILE=" + at("rabbitmq.conf"), "RABBITMQ_CONF_ENV_FILE=" + at("env.conf"), "RABBITMQ_ENABLED_PLUGINS_FILE=" + at("plugins"),
		"RABBITMQ_GENERATED_CONFIG_DIR=" + at("config"), "RABBITMQ_SCHEMA_DIR=" + at("schema"),
		"RUNNING_UNDER_SYSTEMD=yes", // the script becomes the server, so that a kill reaches it
	}
	if b.mapper == nil { // otherwise the server would leave one behind
		b.mapper, err = run(b.dir, env, "epmd", "-address", host, "-port", strconv.Itoa(b.ports[0]))
		require.NoError(t, err)
	}
	b.process, err = run(b.dir, env, "/usr/lib/rabbitmq/bin/rabbitmq-server")
	require.NoError(t, err)
	require.NoError(t, b.answer(func() error { return b.ping(context.Background()) }))
}

func (b *rabbit) config() amqp.Config {
	c := amqp.NewDurableQueueConfig("amqp://guest:guest@" + b.address + "/")
	c.Publish.ConfirmDelivery = true
	return c
}

// ping opens a connection of the protocol: the port alone is open before the server is ready.
func (b *rabbit) ping(ctx context.Context) error {
	c, err := amqp.NewConnection(b.config().Connection, nil)
	if err != nil {
		return err
	}
	return c.Close()
}

var quietMill = mill.NewSlogLogger(slog.New(slog.DiscardHandler))

func (b *rabbit) publisher(t testing.TB) message.Publisher {
	pub := watermill.DialPublisher(func() (message.Publisher, error) { return amqp.NewPublisher(b.config(), quietMill) })
	t.Cleanup(func() { _ = pub.Close() }) // it complains if the server was killed meanwhile
	return pub
}

func (b *rabbit) subscriber(t testing.TB, _ time.Duration) message.Subscriber {
	sub := watermill.Dial(func() (message.Subscriber, error) { return amqp.NewSubscriber(b.config(), quietMill) })
	t.Cleanup(func() { _ = sub.Close() })
	return sub
}

// plainRabbit returns a subscriber with one connection for all subscriptions.
func plainRabbit(t testing.TB, b broker) message.Subscriber {
	sub, err := amqp.NewSubscriber(b.(*rabbit).config(), quietMill)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, sub.Close()) })
	return sub
}
