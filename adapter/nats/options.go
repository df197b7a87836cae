package nats

import (
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/golda-dev/golda/internal/kept"
	"github.com/golda-dev/golda/internal/verdict"
	"github.com/golda-dev/golda/stage"
)

// Options says how an [Inlet] keeps messages and how it delivers them. The zero
// Options is useful. The inlets of one name, in all processes, should have the
// same Options: the stream and the consumer have the options that [NewInlet]
// set last.
type Options[C any] struct {
	// Codec turns commands into messages. nil means the codec [JSON], and
	// NewInlet refuses a C that JSON does not keep: one with functions,
	// channels, interfaces, or unexported fields, unless its type writes and
	// reads itself.
	Codec Codec[C]

	// MaxBytes and MaxMessages are how much the stream holds: then messages are
	// refused with [ErrFull]. 0 means no limit but the limit of the server, and
	// 1 KiB is the least of MaxBytes.
	MaxBytes, MaxMessages int64
	// Dedup is how long the IDs of messages are remembered. 0 means two
	// minutes, and 100 ms is the least. Each ID takes some memory of the
	// server.
	Dedup time.Duration
	// Replicas is how many servers of a cluster hold each message. 0 means as
	// many as now, if the inlet's streams are there, or else 1.
	Replicas int
	// Memory has the stream kept in memory: it does not outlive its server.
	// When the server has started again, the inlets make it anew and log an
	// error: messages that were not delivered are lost, and a message in flight
	// that fails becomes a dead letter.
	Memory bool

	// MaxInFlight is how many messages are in this process at once: messages
	// that the stage and the stages after it have not ended. As many again may
	// have ended without a confirmation of the server yet. 0 means 1024, and no
	// more while the messages here have 64 MiB. A number bounds the messages
	// only. If commands take long, choose a few for each worker: a message that
	// waits here is not delivered to an idle process. A stage that collects
	// commands before they end, such as a window, must get as many as it
	// collects: if MaxInFlight messages are here and none of them ends for a
	// minute, that is logged.
	MaxInFlight int
	// AckWait is how long after its last sign of life a process counts as gone,
	// so that its messages are delivered again. The inlet sends signs of life
	// for as long as a command is in flight. 0 means 30 s, and 100 ms is the
	// least.
	AckWait time.Duration
	// Retry says when a message is delivered again whose command failed.
	// Attempts is the most deliveries of a message. A delivery counts if its
	// command failed, or if no process says how it ended, as when the process
	// was killed. Deliveries that a stop gave back do not count, nor do
	// deliveries whose command was refused and not tried (see
	// [stage.RetryPolicy]), for the last week and the last 262,144 of them. 0
	// means 10. Backoff is the pause after the first delivery, and doubles with
	// each delivery up to Max; 0 means a second, and a minute. If chooses the
	// errors that are worth another delivery; nil means all but crashes and
	// stage.ErrExpired. An error that is overload waits at least as long as its
	// hint, up to Max. A Budget is not allowed.
	Retry stage.RetryPolicy
	// UntilEmpty makes the source exhausted when the stream is empty: no
	// message is left, not even one that is in flight or waits for another
	// delivery.
	UntilEmpty bool

	// Jobs makes the inlet a job queue: [Inlet.PublishJob] publishes jobs that
	// are due later, or are the only ones of their key, and [Inlet.Schedule]
	// declares periodic ones. The inlet has one more stream in the server then,
	// of the jobs that wait for their time, which MaxBytes and MaxMessages do
	// not limit. The server must have the version 2.12.0 at least; the server
	// of [Embed] has. The inlet of a keyed stage that a Carrier makes cannot be
	// one, nor one with Fair; one with Lanes can.
	Jobs bool

	// Fair has keys share the inlet by their weights, say the tenants of a
	// service: while several keys have messages, the processes receive them in
	// turns, and a turn of a key has more messages if its weight is larger, as
	// with [stage.Fair]. So a key that publishes a million messages holds up
	// its own, and the others by its turns only. Fair returns the key of a
	// command, and the weight of the key, at least 1. Any number of goroutines
	// may call it; for the same command it always returns the same key. Publish
	// refuses a command for which Fair panics or returns no weight. The weights
	// may change: a process uses the weight of the command that it has read
	// last.
	//
	// The keys need not be known before. A hash puts each into one of so many
	// Partitions: keys in one partition share its turns, with the weight of one
	// of them, and are first in, first out. MaxInFlight may be exceeded by one
	// message of each partition, which is the first of a partition that had
	// none here. The stage should be fair itself, with stage.Fair, or else a
	// message waits in it behind all that the process has.
	//
	// All processes, publishers included, need the same Fair, Partitions and
	// AtOnce. A plain inlet cannot become fair, nor the other way, while the
	// stream has messages: remove the stream then.
	//
	// [stage.Fair]: https://pkg.go.dev/github.com/golda-dev/golda/stage#Fair
	Fair func(cmd C) (key string, weight int)
	// AtOnce bounds how many messages of one partition are in flight, or wait
	// for another delivery, in all processes together. 0 means any number:
	// 65,536. It needs Fair.
	AtOnce int
	// Partitions is how many partitions the inlet has. Of the inlet of a keyed
	// stage that a [Carrier] makes it is how many of its commands are handled
	// at once in all processes together, and by how many of them; 0 means 32.
	// With Fair 0 means 64. 256 is the most, and each is a consumer in the
	// server. It cannot be changed while the stream has messages: remove the
	// stream then. For other inlets it must be 0.
	Partitions int

	// Lanes are the priority lanes of the inlet, with their weights:
	//
	//	Lanes: map[string]int{"urgent": 8, "normal": 3, "bulk": 1},
	//	Lane:  func(m Mail) string { return m.Lane },
	//
	// While several lanes have messages, the processes receive them in turns, and
	// a turn of a lane has more messages if its weight is larger: of twelve
	// messages here eight, three and one. So each lane gets its part, however
	// many messages the others have, and all of it if the others are empty.
	// Within a lane the messages are first in, first out. With Jobs a job may
	// have another lane than its command: see jobs.Spec.
	//
	// A message that has arrived waits in the stage behind the messages that the
	// process has: choose a MaxInFlight of a few for each worker. The process may
	// have one message of each lane more than MaxInFlight: the first message of a
	// lane without messages in the process takes no place.
	//
	// At most 32 lanes, with names of letters, digits, - and _ and weights of at
	// least 1. All processes, publishers included, need the same names; the
	// weights may differ: each process receives by its own. The names cannot be
	// changed while the stream has messages: remove the stream then.
	Lanes map[string]int
	// Lane returns the lane of a command. Lanes needs it. Any number of
	// goroutines may call it. Publish refuses a command for which it panics or
	// returns the name of no lane.
	Lane func(cmd C) string

	// Logger logs when the server goes away and comes back, each permission
	// that the server denies, and each dead letter. nil means slog.Default.
	Logger *slog.Logger

	bytesInFlight int  // see MaxInFlight; 0 means no bound
	ofJobs        bool // the stream is that of a job queue, whose subjects an inlet without Jobs leaves as they are
}

// The defaults of Options, and a bound that is none of them.
const (
	defaultInFlight   = 1024
	defaultBytes      = 64 << 20
	defaultAckWait    = 30 * time.Second
	defaultPartitions = 32
	defaultShares     = 64
	maxPartitions     = 256
	leastAckWait      = 100 * time.Millisecond
	leastDedup        = 100 * time.Millisecond // of the server
	leastBytes        = 1 << 10                // of a stream: a small message with its headers
	longestPause      = time.Minute
	mostBack          = 1 << 18 // how often messages of an inlet were given back, as far as it is remembered
	longestBack       = 7 * 24 * time.Hour
	maxPending        = 1 << 16 // messages of an inlet that are in flight or wait for another delivery, in all processes
)

// filled returns the options with their defaults.
func (o Options[C]) filled() Options[C] {
	if o.Codec == nil {
		o.Codec = JSON[C]{}
	}
	if o.MaxInFlight == 0 {
		o.MaxInFlight, o.bytesInFlight = defaultInFlight, defaultBytes
	}
	setDefault(&o.AckWait, defaultAckWait)
	o.Retry = verdict.Filled(o.Retry, longestPause)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o
}

func setDefault[N comparable](field *N, to N) {
	var zero N
	if *field == zero {
		*field = to
	}
}

// reserved are the endings of the names of an inlet's other streams, beside the
// stream of its messages.
var reserved = []string{"_DEAD", "_BACK", "_LATER"}

// isReserved reports whether an inlet of that name would have a stream of
// another inlet.
func isReserved(name string) bool {
	return slices.ContainsFunc(reserved, func(end string) bool { return strings.HasSuffix(name, end) })
}

var validName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// check returns all that is wrong.
func (o Options[C]) check(name string) error {
	var errs []error
	fault := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	if o.Codec == nil {
		of := reflect.TypeFor[C]()
		problem := kept.ByJSON(of)
		fault(problem != "", "JSON cannot carry %v: %s; change the type, or give the inlet a codec with Options.Codec", of, problem)
	}
	fault(!validName.MatchString(name), "the name %.128q must be of 1 to 64 letters, digits, - and _", name)
	fault(isReserved(name), "the name %q ends with one of %q, which are for streams beside that of the messages", name, reserved)
	fault(o.MaxBytes < 0, "MaxBytes is %d; use 0 for no limit", o.MaxBytes)
	fault(o.MaxBytes > 0 && o.MaxBytes < leastBytes, "MaxBytes is %d, and must be at least %d: the stream would take no message; use 0 for no limit",
		o.MaxBytes, leastBytes)
	fault(o.MaxMessages < 0, "MaxMessages is %d; use 0 for no limit", o.MaxMessages)
	fault(o.Dedup != 0 && o.Dedup < leastDedup, "Dedup is %v, and must be at least %v; use 0 for two minutes", o.Dedup, leastDedup)
	fault(o.Replicas < 0 || o.Replicas > 5, "Replicas is %d, and must be from 1 to 5", o.Replicas)
	fault(o.MaxInFlight < 0 || o.MaxInFlight > maxPending, "MaxInFlight is %d, and must be from 1 to %d", o.MaxInFlight, maxPending)
	fault(o.Partitions < 0 || o.Partitions > maxPartitions, "Partitions is %d, and must be from 1 to %d", o.Partitions, maxPartitions)
	fault(o.AtOnce < 0 || o.AtOnce > maxPending, "AtOnce is %d, and must be from 1 to %d; use 0 for any number", o.AtOnce, maxPending)
	fault(o.AtOnce != 0 && o.Fair == nil, "AtOnce is %d, and needs Fair, which says of which keys", o.AtOnce)
	fault(o.Jobs && o.Fair != nil, "Jobs and Fair are set, and an inlet has one of them: use stage.Fair in the stage behind a job queue")
	o.checkLanes(fault)
	fault(o.AckWait != 0 && o.AckWait < leastAckWait, "AckWait is %v, and must be at least %v", o.AckWait, leastAckWait)
	verdict.Check(o.Retry, fault)
	return errors.Join(errs...)
}

// stream returns the configuration of the stream of messages.
func (o Options[C]) stream(n names, k kind) jetstream.StreamConfig {
	c := jetstream.StreamConfig{
		Name: n.stream, Subjects: []string{n.subject}, Description: k.String(),
		Retention: jetstream.WorkQueuePolicy, Discard: jetstream.DiscardNew, MaxBytes: -1, MaxMsgs: -1, Replicas: o.Replicas,
		Duplicates: o.Dedup, Storage: o.storage(),
	}
	switch {
	case k.lanes != "":
		c.Subjects = []string{n.subject + ".*.*"}
	case k.parts > 0:
		c.Subjects = []string{n.subject + ".*"}
	case o.Jobs || o.ofJobs:
		c.Subjects = []string{n.subject, n.subject + ".*"}
	}
	if o.MaxBytes > 0 {
		c.MaxBytes = o.MaxBytes
	}
	if o.MaxMessages > 0 {
		c.MaxMsgs = o.MaxMessages
	}
	return c
}

// deadStream returns the configuration of the stream of dead letters. Each
// letter has the subject of its message, and a subject has one letter at most:
// so a letter that is written twice is there once.
func (o Options[C]) deadStream(n names) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: n.dead, Subjects: []string{n.deadSubject + ".*"}, Description: "the dead letters of a Golda inlet",
		Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardNew, DiscardNewPerSubject: true, MaxMsgsPerSubject: 1,
		Replicas: o.Replicas, Storage: o.storage(),
	}
}

// backStream returns the configuration of the stream of deliveries that were
// given back. Each time that a message is given back is an element with the
// subject of the message; see [tracker.attempts].
func (o Options[C]) backStream(n names) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: n.back, Subjects: []string{n.backSubject + ".*"}, Description: "what was given back to a Golda inlet",
		Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardOld, MaxMsgs: mostBack, MaxAge: longestBack,
		Replicas: o.Replicas, Storage: o.storage(),
	}
}

// consumer returns the configuration of the consumer that all processes share.
func (o Options[C]) consumer() jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable: consumerName, AckPolicy: jetstream.AckExplicitPolicy, AckWait: o.AckWait, MaxDeliver: -1, MaxAckPending: maxPending,
	}
}

func (o Options[C]) storage() jetstream.StorageType {
	if o.Memory {
		return jetstream.MemoryStorage
	}
	return jetstream.FileStorage
}

// names are the names that an inlet has in the server.
type names struct{ stream, subject, dead, deadSubject, back, backSubject, later, laterSubject, cancel string }

// has reports whether a subject belongs to the inlet.
func (n names) has(subject string) bool {
	return slices.ContainsFunc(strings.Split(subject, "."), func(word string) bool { return slices.Contains([]string{n.stream, n.dead, n.back, n.later}, word) }) ||
		slices.ContainsFunc([]string{n.subject, n.deadSubject, n.backSubject, n.laterSubject, n.cancel}, func(own string) bool {
			return subject == own || strings.HasPrefix(subject, own+".")
		})
}

// requests reports whether a subject is that of a request to JetStream about
// the inlet. An acknowledgement or a message of the inlet that is denied
// meanwhile is no answer to such a request.
func (n names) requests(subject string) bool { return isAPI(subject) && n.has(subject) }

const consumerName = "golda"

func namesOf(inlet string) names {
	return names{
		stream: "GOLDA_" + inlet, subject: "golda.inlet." + inlet,
		dead: "GOLDA_" + inlet + "_DEAD", deadSubject: "golda.dead." + inlet,
		back: "GOLDA_" + inlet + "_BACK", backSubject: "golda.back." + inlet,
		later: "GOLDA_" + inlet + "_LATER", laterSubject: "golda.later." + inlet,
		cancel: "golda.cancel." + inlet,
	}
}
