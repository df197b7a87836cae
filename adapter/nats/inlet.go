package nats

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/golda-dev/golda/internal/feed"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/headers"
)

// Inlet is a durable queue in front of a stage: a stream of messages that each
// hold a command. Any process publishes to it, and any number of processes feed
// stages from it. Any goroutine may call its methods.
type Inlet[C any] struct {
	name   string
	names  names
	o      Options[C]
	conn   *Conn
	stream jetstream.Stream
	dead   jetstream.Stream
	keys   partitioning[C]
	fed    atomic.Bool // while the source runs

	published, duplicates, refused atomic.Uint64

	restoring sync.Mutex // held by restore

	tracker *tracker
	jobs    *jobQueue // nil unless Options.Jobs
}

// NewInlet returns the inlet of a name, of letters, digits, - and _, that does
// not end with _DEAD, _BACK or _LATER. It makes the inlet's streams in the server if
// they are not there, and changes them to what the options say if they are. Two
// inlets of one name, in one process or several, share the messages.
//
// All that is wrong with the options is in one error. A nil conn panics.
func NewInlet[C any](ctx context.Context, conn *Conn, name string, o Options[C]) (*Inlet[C], error) {
	link.CheckContext(ctx, "nats: NewInlet")
	if conn == nil {
		panic("nats: NewInlet: the Conn is nil")
	}
	var keys partitioning[C]
	switch {
	case o.Fair != nil && o.check(name) == nil:
		keys = sharing(o.Fair, o.Partitions, o.AtOnce)
	case o.Lane != nil && o.check(name) == nil && o.Partitions == 0:
		keys = inLanes(o.Lanes, o.Lane)
	case o.Fair == nil && o.Partitions != 0:
		return nil, fmt.Errorf("nats: inlet %.128q: %w", name, errPartitions)
	}
	return newInlet(ctx, conn, name, o, keys)
}

func newInlet[C any](ctx context.Context, conn *Conn, name string, o Options[C], keys partitioning[C]) (*Inlet[C], error) {
	i := &Inlet[C]{name: name, names: namesOf(name), conn: conn, keys: keys}
	if err := i.open(ctx, o); err != nil {
		return nil, fmt.Errorf("nats: inlet %.128q: %w", name, err)
	}
	return i, nil
}

func (i *Inlet[C]) open(ctx context.Context, o Options[C]) (err error) {
	if err := o.check(i.name); err != nil {
		return err
	}
	i.o = o.filled()
	if err := i.openJobs(); err != nil {
		return err
	}
	if err = i.conn.denials.ask(ctx, i.names.requests, i.make); err != nil {
		return err
	}
	i.tracker = newTracker(trackerConfig{
		name: i.name, names: i.names, conn: i.conn.nc, js: i.conn.js, log: i.o.Logger.With("inlet", i.name), plain: i.o.Logger,
		retry: i.o.Retry, ackWait: i.o.AckWait, most: i.o.MaxInFlight, beyond: len(i.keys.weights), bytes: i.o.bytesInFlight, denials: i.conn.denials, makeDead: i.makeDead,
		cancels: i.jobs != nil,
	})
	if err := i.conn.own(i.tracker); err != nil {
		return errors.Join(err, i.tracker.close(ctx))
	}
	return nil
}

// make makes the streams and the consumer, or changes them.
func (i *Inlet[C]) make(ctx context.Context) (err error) {
	is := false
	err = i.conn.patiently(ctx, i.o.Logger, "whether the stream "+i.names.stream+" is there", func(ctx context.Context) (err error) {
		if is, err = i.known(ctx); err == nil && i.o.Replicas == 0 && !is {
			i.o.Replicas, err = i.conn.replicas(ctx, i.names.stream)
		}
		return err
	})
	if is || err != nil {
		return err
	}
	if err = i.makeStreams(ctx); err != nil {
		return err
	}
	if i.keys.parts > 0 {
		err = i.makePartitions(ctx)
	} else {
		err = i.conn.ensureConsumer(ctx, i.o.Logger, i.names.stream, i.o.consumer())
	}
	if err != nil {
		return fmt.Errorf("its consumer: %w", err)
	}
	return nil
}

// makeStreams makes the streams at once: in a cluster each has an election.
func (i *Inlet[C]) makeStreams(ctx context.Context) error {
	all, ctx := errgroup.WithContext(ctx)
	ensure := func(stream *jetstream.Stream, what string, config jetstream.StreamConfig) {
		all.Go(func() (err error) {
			if *stream, err = i.conn.ensureStream(ctx, i.o.Logger, config); err != nil {
				return fmt.Errorf("its stream%s: %w", what, err)
			}
			return nil
		})
	}
	var back jetstream.Stream
	ensure(&i.stream, "", i.o.stream(i.names, i.keys.kind()))
	ensure(&i.dead, " of dead letters", i.o.deadStream(i.names))
	ensure(&back, " of what was given back", i.o.backStream(i.names))
	if i.o.Jobs {
		all.Go(func() error { return i.makeLater(ctx) })
	}
	return all.Wait()
}

// makeDead makes the stream of dead letters anew, that was removed while the
// inlet is in use.
func (i *Inlet[C]) makeDead(ctx context.Context) error {
	i.o.Logger.Error("the stream of dead letters was removed; it is made anew, and is empty", "inlet", i.name)
	_, err := i.conn.ensureStream(ctx, i.o.Logger, i.o.deadStream(i.names))
	return err
}

// isGone reports whether an error of the server means that a stream or a
// consumer is not there.
func isGone(err error) bool {
	return errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrConsumerNotFound)
}

// restore makes what the server has in memory anew, if a consumer is not there
// because the server was started again, and a consumer that was removed. A
// stream on disk does not vanish by itself, so that it is gone stays an error.
func (i *Inlet[C]) restore(ctx context.Context, consumer string) error {
	i.restoring.Lock()
	defer i.restoring.Unlock()
	_, err := i.conn.js.Consumer(ctx, i.names.stream, consumer)
	if errors.Is(err, jetstream.ErrConsumerNotFound) && !i.o.Memory {
		i.o.Logger.Error("the consumer of the inlet was removed; it is made anew, and what was in flight is delivered again",
			"inlet", i.name, "consumer", consumer)
		return i.remake(ctx)
	}
	if !i.o.Memory || !isGone(err) {
		return i.conn.explain(err)
	}
	i.o.Logger.Error("the server was started again and has lost the streams of the inlet, which were in memory, with all messages that were "+
		"not delivered; they are made anew, and are empty", "inlet", i.name)
	return i.remake(ctx)
}

// remake makes what of the streams and consumers is not there.
func (i *Inlet[C]) remake(ctx context.Context) error {
	anew := &Inlet[C]{name: i.name, names: i.names, o: i.o, conn: i.conn, keys: i.keys, jobs: i.jobs}
	return anew.make(ctx)
}

// isLost reports whether an error of publishing may mean that the streams are
// gone that a server had in memory. Then they are made anew.
func (i *Inlet[C]) isLost(ctx context.Context, err error) bool {
	if !i.o.Memory || !errors.Is(err, jetstream.ErrNoStreamResponse) {
		return false
	}
	consumer := consumerName
	if i.keys.parts > 0 {
		consumer = consumerOf(0)
	}
	return i.restore(ctx, consumer) == nil
}

// Name returns the name of the inlet.
func (i *Inlet[C]) Name() string { return i.name }

// The headers of messages and of dead letters.
const (
	headerType     = "Golda-Type"
	headerVersion  = "Golda-Version"
	headerTimeLeft = "Golda-Time-Left"
)

// Publish adds a command to the inlet. It returns nil when the server has the
// message: from then on it is delivered until its command has ended, as
// [Options.Retry] says, or it becomes a dead letter. A message with the same ID
// as another one that was published within the time of [Options.Dedup] is
// dropped, which is not an error: PublishOnce says whether it was. An ID is any
// text of at most 16 KiB. Without an ID nothing is dropped.
//
// A deadline of stage.WithDeadline in ctx travels with the command: if it
// passes before the command is handled, the message becomes a dead letter,
// reason.Expired. The time in the server counts, and clocks need not agree: the
// message says how much time was left when it was published. Any other deadline
// of ctx bounds the wait for the server.
//
// Of a stream that is full the error is [ErrFull], at once. If the server does
// not answer before ctx ends, or within five seconds if ctx has no deadline, it
// is [ErrAway]: then the message may be there or not, and publishing it again
// with the same ID is safe. So it is if ctx is canceled meanwhile, and the
// error is the cause of that. A message that is too large, or whose ID is, is
// [ErrTooLarge]. If the user of the connection may not publish to the inlet,
// the error names the subject. [stage.Overloaded] recognises the first two. In
// a handler, stage.Retry tries again later:
//
//	stage.Sink("hand over", func(ctx context.Context, o Order) error { return orders.Publish(ctx, o.ID, o) },
//		stage.Retry(stage.RetryPolicy{Attempts: 100, Backoff: time.Second, If: overloaded}))
//
// [stage.Overloaded]:
// https://pkg.go.dev/github.com/golda-dev/golda/stage#Overloaded
func (i *Inlet[C]) Publish(ctx context.Context, id string, cmd C) error {
	link.CheckContext(ctx, "nats: Publish")
	_, err := i.publish(ctx, id, cmd)
	return err
}

// PublishOnce is Publish, and reports whether the message was added: it was not
// if the server knows its ID.
func (i *Inlet[C]) PublishOnce(ctx context.Context, id string, cmd C) (added bool, err error) {
	link.CheckContext(ctx, "nats: PublishOnce")
	return i.publish(ctx, id, cmd)
}

func (i *Inlet[C]) publish(ctx context.Context, id string, cmd C) (added bool, err error) {
	done, err := i.publishMessage(ctx, id, cmd)
	if err != nil {
		i.refused.Add(1)
		return false, fmt.Errorf("nats: inlet %q: %w", i.name, err)
	}
	return !done.Duplicate, nil
}

func (i *Inlet[C]) publishMessage(ctx context.Context, id string, cmd C) (*jetstream.PubAck, error) {
	m, err := i.message(ctx, id, cmd)
	if err != nil {
		return nil, err
	}
	return i.publishNow(ctx, m)
}

// publishNow publishes a message, and waits for the server.
func (i *Inlet[C]) publishNow(ctx context.Context, m *natsgo.Msg) (*jetstream.PubAck, error) {
	sent := time.Now()
	var done *jetstream.PubAck
	err := i.conn.denials.unlessDenied(ctx, m.Subject, sent, func(ctx context.Context) (err error) {
		done, err = i.conn.js.PublishMsg(ctx, m)
		if i.isLost(ctx, err) {
			done, err = i.conn.js.PublishMsg(ctx, m)
		}
		return err
	})
	if denied := i.conn.denials.silenced(err, m.Subject, sent); denied != nil {
		return nil, denied
	}
	return done, i.taken(ctx, done, err)
}

// message returns the message of a command that is published now, with the
// deadline and the values of a context; the context may be nil.
func (i *Inlet[C]) message(of context.Context, id string, cmd C) (*natsgo.Msg, error) {
	return i.messageIn(of, id, "", cmd)
}

// messageIn is message for a lane; empty means the lane of the command.
func (i *Inlet[C]) messageIn(of context.Context, id, lane string, cmd C) (*natsgo.Msg, error) {
	if err := i.conn.broken(); err != nil {
		return nil, err
	}
	p, err := encode(i.o.Codec, cmd)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	if !isPlain(p.Type) {
		return nil, fmt.Errorf("encode: the type %q has control characters, or white space around it", p.Type)
	}
	m := &natsgo.Msg{Data: p.Data, Header: natsgo.Header{headerType: {p.Type}, headerVersion: {strconv.Itoa(p.Version)}}}
	if id != "" {
		m.Header.Set(jetstream.MsgIDHeader, headerOf(id))
	}
	inject(of, m.Header)
	if err := checkHeaders(m); err != nil {
		return nil, err
	}
	part, err := i.route(cmd, lane)
	if err != nil {
		return nil, err
	}
	word := ""
	if i.o.Jobs && id != "" {
		word = tokenOf(byID, id)
	}
	i.address(m, part, word)
	if most := i.conn.nc.MaxPayload() - letterRoom; int64(m.Size()) > most {
		return nil, fmt.Errorf("%w: %d bytes, and the server takes %d", ErrTooLarge, m.Size(), most)
	}
	return m, nil
}

// longestText is how many bytes an ID and a type may have. The server takes 64
// KiB of headers: the ID, again if the message is one of a chain, the type, and
// the headers of a dead letter.
const longestText = 16 << 10

// checkHeaders returns an error if the server would not take the headers of a
// message.
func checkHeaders(m *natsgo.Msg) error {
	if n := len(m.Header.Get(jetstream.MsgIDHeader)); n > longestText {
		return fmt.Errorf("%w: its ID has %d bytes, and may have %d", ErrTooLarge, n, longestText)
	}
	if n := len(m.Header.Get(headerType)); n > longestText {
		return fmt.Errorf("%w: its type has %d bytes, and may have %d", ErrTooLarge, n, longestText)
	}
	return nil
}

// isPlain reports whether a header gives a text back as it is. Package nats.go
// cuts off white space, and makes line breaks spaces.
func isPlain(text string) bool {
	return strings.Trim(text, " ") == text && !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// headerOf returns an ID as a header keeps it: as it is, or quoted. Two IDs
// never become one.
func headerOf(id string) string {
	if isPlain(id) && !strings.HasPrefix(id, `"`) {
		return id
	}
	return strconv.Quote(id)
}

// idFrom returns the ID of a header. A header that is not a quoted text is the
// ID itself.
func idFrom(header string) string {
	if id, err := strconv.Unquote(header); err == nil && strings.HasPrefix(header, `"`) {
		return id
	}
	return header
}

// taken counts a message that the server has taken, or returns why it has not.
func (i *Inlet[C]) taken(ctx context.Context, done *jetstream.PubAck, err error) error {
	switch {
	case errors.Is(err, natsgo.ErrMaxPayload):
		return fmt.Errorf("%w: %w", ErrTooLarge, err)
	case err != nil && ctx.Err() != nil && !errors.Is(err, context.DeadlineExceeded):
		return context.Cause(ctx)
	case err != nil:
		return i.conn.explain(err)
	case done.Duplicate:
		i.duplicates.Add(1)
	default:
		i.published.Add(1)
	}
	return nil
}

// encode calls the codec. A panic is an error.
func encode[C any](codec Codec[C], cmd C) (p Payload, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the codec panicked: %v\n%s", v, debug.Stack())
		}
	}()
	return codec.Encode(cmd)
}

// decode returns the command of a message.
func decode[C any](codec Codec[C], m *natsgo.Msg) (cmd C, err error) {
	version, err := strconv.Atoi(m.Header.Get(headerVersion))
	if err != nil {
		return cmd, fmt.Errorf("%w: the message has no version", ErrUnknownType)
	}
	return decodePayload(codec, Payload{Type: m.Header.Get(headerType), Version: version, Data: m.Data})
}

// decodePayload calls the codec. A panic is an error.
func decodePayload[C any](codec Codec[C], p Payload) (cmd C, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the codec panicked: %v", v)
		}
	}()
	return codec.Decode(p)
}

// Feed is the source of a feed:
//
//	pipeline.Feed("orders", save, orders.Feed)
//
// It asks the server for as many messages as fit into [Options.MaxInFlight],
// and submits their commands. When a command and all that was emitted on its
// way has ended well, its message is acknowledged; if one of them failed, all
// of the message is delivered again, or becomes a dead letter. Commands that a
// hard stop ends are given back to the server at once, except those whose
// handlers did not return within the grace: these still run, and are left to
// [Options.AckWait]. A process that is gone does not answer, and its messages
// are delivered again after [Options.AckWait]. So each command is handled at
// least once.
//
// When the server is away, the source waits for it for as long as that takes:
// the snapshot of the pipeline shows the feed as "away", with the reason. It is
// exhausted only with [Options.UntilEmpty]. An inlet feeds one stage at a time;
// see [NewInlet] for several.
func (i *Inlet[C]) Feed(ctx context.Context, submit func(C) error) error {
	if err := feed.SetBound(ctx, feed.Bound{Most: i.o.MaxInFlight, Source: fmt.Sprintf("inlet %q", i.name), Option: "MaxInFlight"}); err != nil {
		return err
	}
	return source.Ends(i.feedAlone)(ctx, submit)
}

func init() { feed.Bounds("github.com/golda-dev/golda/adapter/nats.(*Inlet[...]).Feed-fm") }

// feedAlone is feed for one caller at a time.
func (i *Inlet[C]) feedAlone(ctx context.Context, submit func(C, func(error)) error) error {
	if !i.fed.CompareAndSwap(false, true) {
		return source.Fatal(fmt.Errorf("nats: inlet %q: %w", i.name, ErrFed))
	}
	defer i.fed.Store(false)
	if err := i.keys.lacks(); err != nil {
		return source.Fatal(fmt.Errorf("nats: inlet %q: %w", i.name, err))
	}
	i.tracker.feeds(ctx)
	i.tracker.begin()
	defer i.tracker.finish()
	defer i.beginJobs(ctx)()
	return i.feed(ctx, submit)
}

// feed submits the commands of messages until ctx ends.
func (i *Inlet[C]) feed(ctx context.Context, submit func(C, func(error)) error) (err error) {
	own, cancel := context.WithCancel(ctx)
	ready := i.ready()
	position := feed.Of(ctx)
	pause := &pausing{is: position.IsPaused, away: func(err error) {
		i.tracker.waits.Store(&err)
		source.SetAway(ctx, err)
	}}
	defer i.tracker.waits.Store(nil)
	var receiving sync.WaitGroup
	receiving.Go(func() {
		defer close(ready)
		pause.between(own, func(ctx context.Context) { i.receive(ctx, ready, pause.away) }, func() { i.tracker.giveBackAll(ready) })
	})
	defer func() { // also after a panic
		cancel()
		receiving.Wait()
		for d := range ready {
			i.tracker.giveBack(d)
		}
	}()
	for d := range ready {
		if pause.on.Load() {
			i.tracker.giveBack(d)
			continue
		}
		if i.spent(ctx, d) {
			continue
		}
		cmd, span, err := i.read(d)
		if err != nil {
			i.tracker.undecodable(d, err)
			continue
		}
		err = position.Within(span, func() error {
			return submit(cmd, func(err error) { i.tracker.ended(d, stopped(ctx, err)) })
		})
		if err != nil {
			i.tracker.giveBack(d)
			return err
		}
	}
	return context.Cause(ctx) // nil if the stream is empty
}

// ready returns the channel from which the feed takes arrived messages. With
// shares it holds none: a message that arrives later may be the next one.
func (i *Inlet[C]) ready() chan *delivery {
	if i.keys.fair != nil {
		return make(chan *delivery)
	}
	return make(chan *delivery, i.o.MaxInFlight)
}

// read returns the command of a delivery, and when it may wait.
func (i *Inlet[C]) read(d *delivery) (cmd C, span feed.Span, err error) {
	m := d.message()
	if span, err = i.tracker.clock.Load().span(d, m.Header.Get(headerTimeLeft)); err != nil {
		return cmd, span, err
	}
	span.Ends = d.end
	span.Derive = i.jobs.deriving(m.Header, headers.From(m.Header.Get))
	if cmd, err = decode(i.o.Codec, m); err == nil {
		i.keys.weigh(d.part, cmd)
	}
	return cmd, span, err
}

// stopped marks the error of a command as caused by a stop. That is so if the
// context of the feed has ended, and either the handler has returned that its
// context was canceled or its wait was ended because the pipeline stops: a hard
// stop does both.
func stopped(feed context.Context, err error) error {
	canceled := errors.Is(err, context.Canceled) || errors.Is(err, pipeline.ErrStopped)
	if feed.Err() != nil && canceled && !stage.Crashed(err) {
		return fmt.Errorf("%w: %w", stage.ErrStopped, err)
	}
	return err
}

// receive receives messages until ctx ends, or the stream is empty and that is
// asked for.
func (i *Inlet[C]) receive(ctx context.Context, ready chan *delivery, away func(error)) {
	switch {
	case i.keys.fair != nil:
		i.takeTurns(ctx, ready, away)
		return
	case i.keys.parts > 0:
		i.share(ctx, ready, away)
		return
	}
	newReceiver(i.tracker, i.conn, i.o.UntilEmpty, i.restore, ready).run(ctx, away)
}

// takeTurns receives from all partitions, in turns.
func (i *Inlet[C]) takeTurns(ctx context.Context, ready chan *delivery, away func(error)) {
	arrived := make(chan *delivery)
	var working sync.WaitGroup
	defer working.Wait()
	working.Go(func() { newOrder(i.keys.weights).run(arrived, ready, i.tracker.giveBack) })
	if i.keys.atOnce > 0 {
		looking, stop := context.WithCancel(ctx)
		defer stop()
		working.Go(func() { i.lookForQueues(looking) })
	}
	newSharesReceiver(i.tracker, i.conn, i.o.UntilEmpty, i.restore, arrived, i.keys.weights, i.keys.atOnce).run(ctx, away)
	close(arrived)
}

// spent deals with a message that was delivered before and must not be handled
// again, and reports whether it is one.
func (i *Inlet[C]) spent(ctx context.Context, d *delivery) bool {
	if d.deliveries() <= 1 {
		return false
	}
	if i.tracker.buried(ctx, i.dead, d) {
		i.tracker.end(d)
		return true
	}
	n, most := i.tracker.attempts(ctx, d), i.o.Retry.Attempts
	if n > most {
		i.tracker.letters <- letter{d, Deliveries, fmt.Errorf("delivered %d times, and at most %d are allowed; %w", n, most, i.tracker.unanswered(ctx, d))}
	}
	return n > most
}

// Counts is what an [Inlet] has done in this process. At any instant
//
//	Delivered = Acknowledged + GivenBack + DeadLettered + Repeated + InFlight
type Counts struct {
	Published  uint64 // messages that the server has taken
	Duplicates uint64 // messages that the server has dropped because it knew their IDs
	Refused    uint64 // messages that were to be published and were not, or not for certain

	Delivered    uint64 // messages that have arrived; each delivery counts
	Redelivered  uint64 // deliveries of messages that were delivered before, to any process
	Acknowledged uint64 // messages that are done, as the server has confirmed
	GivenBack    uint64 // messages that are to be delivered again: at once, after a pause, or after Options.AckWait
	DeadLettered uint64 // messages that have become dead letters
	Repeated     uint64 // deliveries of messages that were in flight in this process already; they are not handled again
	InFlight     uint64 // messages that have arrived and are none of the four
}

// Counts returns the counts since the inlet was made.
func (i *Inlet[C]) Counts() Counts {
	c := i.tracker.counts()
	c.Published, c.Duplicates, c.Refused = i.published.Load(), i.duplicates.Load(), i.refused.Load()
	return c
}
