package nats

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"
)

// The inlet of a keyed stage has partitions: the messages of one key are in one
// of them. Each partition has a consumer of its own that has one message in
// flight at most. So the server itself keeps the order, whatever processes do,
// also when a message is delivered again. The processes share the partitions so
// that a key stays with one of them for as long as they stay the same.

// description is the description of the stream of a plain inlet. The
// description of one with partitions ends with their number, and says whether
// they belong to a keyed stage or to keys that share the inlet; the description
// of one with lanes ends with their names. Servers before 2.10 keep no metadata of a
// stream.
const (
	description = "the messages of a Golda inlet"
	partitioned = description + " in %d partitions"
	shared      = description + " in %d shares"
	laned       = description + " in the lanes "
	laneComma   = ", "
)

// kind is how the stream of an inlet is divided.
type kind struct {
	parts int    // 0: it is not
	fair  bool   // keys share the inlet; otherwise it has lanes, or is the inlet of a keyed stage
	lanes string // the names of the lanes, in their order; empty if it has none
}

// String returns the description of a stream.
func (k kind) String() string {
	switch {
	case k.parts == 0:
		return description
	case k.lanes != "":
		return laned + k.lanes
	case k.fair:
		return fmt.Sprintf(shared, k.parts)
	default:
		return fmt.Sprintf(partitioned, k.parts)
	}
}

// headerPartition is the header of a message that says in which partition it
// is.
const headerPartition = "Golda-Partition"

var (
	errPartitioned = errors.New("it is that of a keyed stage: submit the commands in another process, to a stage that leads to it")
	errUntilEmpty  = errors.New("nats: UntilEmpty is not for a keyed stage")
	errPartitions  = errors.New("Partitions is for the inlets of keyed stages that a Carrier has, and for Fair")
)

// partitioning is how the commands of an inlet are partitioned. The zero
// partitioning is one that has no partitions.
type partitioning[C any] struct {
	parts   int
	of      func(cmd C) int // nil if the inlet was made without the keys, keys share it, or it has lanes
	foreign kind            // of the stream, if the inlet was made without the keys

	fair    func(cmd C) (part int, weight int64, err error) // nil unless keys share the inlet, or it has lanes
	lanes   []string                                        // the name of each partition, if it is a lane
	atOnce  int                                             // messages of a partition in flight; 0: any number
	weights weights
}

// kind returns how the stream is divided.
func (p partitioning[C]) kind() kind {
	if p.foreign.parts > 0 {
		return p.foreign
	}
	if p.lanes != nil {
		return kind{parts: p.parts, lanes: strings.Join(p.lanes, laneComma)}
	}
	return kind{parts: p.parts, fair: p.fair != nil}
}

// lacks returns why an inlet without the keys cannot be used; nil if it has
// them.
func (p partitioning[C]) lacks() error {
	switch {
	case p.foreign.parts == 0:
		return nil
	case p.foreign.fair:
		return errFairElsewhere
	case p.foreign.lanes != "":
		return errLanesElsewhere
	default:
		return errPartitioned
	}
}

// most returns how many messages of a partition may be in flight.
func (p partitioning[C]) most() int {
	switch {
	case p.fair == nil:
		return 1
	case p.atOnce == 0:
		return maxPending
	default:
		return p.atOnce
	}
}

// partitionOf returns a function that gives commands partitions. A command
// whose key panics is in the first one: its handler crashes.
func partitionOf(key func(cmd any) uint64, parts int) func(cmd any) int {
	return func(cmd any) (part int) {
		defer func() { _ = recover() }()
		return int(key(cmd) % uint64(parts))
	}
}

// kindOf returns how a stream is divided.
func kindOf(c jetstream.StreamConfig) (k kind) {
	if lanes, has := strings.CutPrefix(c.Description, laned); has {
		return kind{parts: strings.Count(lanes, laneComma) + 1, lanes: lanes}
	}
	for _, fair := range []bool{false, true} {
		n := 0
		_, _ = fmt.Sscanf(c.Description, map[bool]string{false: partitioned, true: shared}[fair], &n) // n is 0 if it is another one
		if there := (kind{parts: n, fair: fair}); n > 0 && there.String() == c.Description {
			return there
		}
	}
	return kind{}
}

// consumerOf returns the name of the consumer of a partition.
func consumerOf(part int) string { return fmt.Sprintf("%s-%d", consumerName, part) }

// partOf returns the partition of a consumer, -1 if it has none.
func partOf(consumer string) int {
	n, is := strings.CutPrefix(consumer, consumerName+"-")
	if part, err := strconv.Atoi(n); is && err == nil {
		return part
	}
	return -1
}

// known looks whether the stream is there with other partitions. It reports
// whether the stream belongs to a keyed stage whose keys this inlet does not
// know: then it leaves the stream as it is.
func (i *Inlet[C]) known(ctx context.Context) (bool, error) {
	stream, err := i.conn.js.Stream(ctx, i.names.stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return false, nil
	}
	if err != nil {
		return false, i.conn.explain(err)
	}
	switch there, own := kindOf(stream.CachedInfo().Config), i.keys.kind(); {
	case there == own:
		i.o.ofJobs = there.parts == 0 && slices.Contains(stream.CachedInfo().Config.Subjects, i.names.subject+".*")
		return false, nil
	case own.parts > 0 && there.fair == own.fair && there.lanes == own.lanes:
		return false, fmt.Errorf("the stream %s has %d partitions, and is to have %d: remove it when it is empty",
			i.names.stream, there.parts, own.parts)
	case own.parts > 0:
		return false, fmt.Errorf("the stream %s has %q, and is to have %q: remove it when it is empty", i.names.stream, there, own)
	default:
		i.keys.parts, i.keys.foreign, i.stream = there.parts, there, stream
		i.dead, err = i.conn.js.Stream(ctx, i.names.dead)
		return true, i.conn.explain(err)
	}
}

// makePartitions makes the consumers of the partitions.
func (i *Inlet[C]) makePartitions(ctx context.Context) error {
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(8)
	for part := range i.keys.parts {
		c := i.o.consumer()
		c.Durable, c.MaxAckPending, c.FilterSubject = consumerOf(part), i.keys.most(), i.subjectIn(strconv.Itoa(part), "")
		if i.keys.lanes != nil {
			c.FilterSubject = i.subjectIn(i.keys.lanes[part], "*")
		}
		all.Go(func() error { return i.conn.ensureConsumer(ctx, i.o.Logger, i.names.stream, c) })
	}
	return all.Wait()
}

// route returns the partition of a command: the given lane, if it is not empty,
// or else the partition of the command. It is empty if the inlet has none.
func (i *Inlet[C]) route(cmd C, lane string) (part string, err error) {
	if err := i.keys.lacks(); err != nil {
		return "", err
	}
	if lane != "" {
		_, err := i.keys.laneOf(lane)
		return lane, err
	}
	if i.keys.parts == 0 {
		return "", nil
	}
	n, err := i.keys.place(cmd)
	if err != nil || i.keys.lanes == nil {
		return strconv.Itoa(n), err
	}
	return i.keys.lanes[n], nil
}

// place returns the partition of a command.
func (p partitioning[C]) place(cmd C) (part int, err error) {
	if p.fair == nil {
		return p.of(cmd), nil
	}
	part, _, err = p.fair(cmd)
	return part, err
}

// address gives a message the subject of a partition and of a job; either may
// be empty.
func (i *Inlet[C]) address(m *natsgo.Msg, part, word string) {
	m.Subject = i.subjectIn(part, word)
	if part != "" {
		m.Header.Set(headerPartition, part)
	}
}

// assign returns which member has each partition. All members have as many, or
// one more. If a member comes or goes, most partitions stay where they are.
func assign(members []string, parts int) []string {
	members = slices.Sorted(slices.Values(members))
	least, extra := parts/len(members), parts%len(members)
	load, of := map[string]int{}, make([]string, parts)
	for part := range of {
		by := slices.SortedFunc(slices.Values(members), func(a, b string) int {
			return cmp.Compare(weight(a, part), weight(b, part))
		})
		i := slices.IndexFunc(by, func(m string) bool { return load[m] < least || load[m] == least && extra > 0 })
		if load[by[i]] == least {
			extra--
		}
		load[by[i]]++
		of[part] = by[i]
	}
	return of
}

// weight returns how much a member is drawn to a partition.
func weight(member string, part int) uint64 {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%d %s", part, member)
	return mix(h.Sum64())
}

// mix mixes the bits of a sum: of similar texts the sums are similar.
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	return x ^ x>>33
}

// How the processes that share an inlet hear of one another.
const (
	memberBeat   = time.Second            // how often a process says that it is there
	memberLost   = 5 * time.Second        // after which one that is silent is not waited for
	memberSettle = 300 * time.Millisecond // how long a process listens before it takes a partition
)

// sharer is one of the processes that share an inlet. Each of its partitions
// has a receiver of its own.
type sharer struct {
	id      string
	subject string
	conn    *Conn
	parts   int
	receive func(ctx context.Context, part int)
	joined  func() // called when it has begun to listen to the others

	others  map[string]time.Time // when each was heard last
	mine    map[int]context.CancelFunc
	working sync.WaitGroup
}

// share receives from the partitions that are this process's, until ctx ends.
func (i *Inlet[C]) share(ctx context.Context, ready chan *delivery, away func(error)) {
	waits := &waiting{of: map[int]error{}, tell: away}
	c := &sharer{
		id: rand.Text(), subject: "golda.members." + i.name, conn: i.conn, parts: i.keys.parts,
		others: map[string]time.Time{}, mine: map[int]context.CancelFunc{},
		joined: func() { waits.set(noPart, nil) },
		receive: func(ctx context.Context, part int) {
			defer waits.set(part, nil) // another receiver, or process, has the partition
			newPartReceiver(i.tracker, i.conn, part, i.restore, ready).run(ctx, func(err error) { waits.set(part, err) })
		},
	}
	defer c.working.Wait()
	c.working.Go(func() { i.lookForQueues(ctx) })
	for ctx.Err() == nil {
		err := c.run(ctx)
		if ctx.Err() == nil {
			waits.set(noPart, explain(err))
			select {
			case <-time.After(firstRetry):
			case <-ctx.Done():
			}
		}
	}
}

// noPart stands for the members among the partitions of a waiting.
const noPart = -1

// waiting has the reasons for which receivers of the partitions of an inlet
// wait. The inlet waits while one of them does.
type waiting struct {
	tell func(error) // gets all reasons as one error, nil if there is none

	mu sync.Mutex // guards of, and is held while tell is called
	of map[int]error
}

// set sets the reason for which the receiver of a partition waits; nil if it
// does not wait.
func (w *waiting) set(part int, why error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if why == nil && w.of[part] == nil && len(w.of) > 0 {
		return
	}
	if delete(w.of, part); why != nil {
		w.of[part] = why
	}
	w.tell(w.allLocked())
}

// allLocked returns the reasons, those with one text once.
func (w *waiting) allLocked() error {
	byText := map[string]error{}
	for _, why := range w.of {
		byText[why.Error()] = why
	}
	var all []error
	for _, text := range slices.Sorted(maps.Keys(byText)) {
		all = append(all, byText[text])
	}
	return errors.Join(all...)
}

// lookForQueues reports to the pipeline, about every second until ctx ends,
// that commands of some partitions wait for the ends of those in flight. A
// partition that is another process's by now may have one in flight here.
func (i *Inlet[C]) lookForQueues(ctx context.Context) {
	tick := time.NewTicker(memberBeat)
	defer tick.Stop()
	before := i.tracker.settled()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		now := i.tracker.settled()
		if now == before && i.tracker.inFlight() > 0 && i.queue(ctx) {
			i.tracker.cursor().IsFull()
		}
		before = now
	}
}

// queue reports whether the stream has another message in a partition of which
// as many are in flight as may be, one of them here. Without an answer of the server there is none.
func (i *Inlet[C]) queue(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, longestRetry)
	defer cancel()
	stream, err := i.conn.js.Stream(ctx, i.names.stream)
	if err != nil {
		return false
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(i.names.subject+".*"))
	return err == nil && slices.ContainsFunc(i.tracker.subjects(), func(s string) bool { return info.State.Subjects[s] > uint64(i.keys.most()) })
}

// run takes part until ctx ends.
func (c *sharer) run(ctx context.Context) error {
	heard := make(chan *natsgo.Msg, 1024)
	sub, err := c.conn.nc.ChanSubscribe(c.subject, heard)
	if err != nil {
		return err
	}
	defer func() {
		_ = sub.Unsubscribe()
		for _, stop := range c.mine {
			stop()
		}
		clear(c.mine)
		c.working.Wait() // messages in flight are answered before others learn that the partitions are free
		c.say('-')
	}()
	c.joined()
	c.say('?')
	beat, settled := time.NewTicker(memberBeat), time.NewTimer(memberSettle)
	defer beat.Stop()
	defer settled.Stop()
	begun := false
	for {
		var changed bool
		select {
		case m := <-heard:
			changed = c.hear(m.Data, time.Now())
		case <-beat.C:
			c.say('+')
			changed = c.forget(time.Now())
		case <-settled.C:
			begun, changed = true, true
		case <-ctx.Done():
			return nil
		}
		if begun && changed {
			c.rebalance(ctx)
		}
	}
}

// say says something of this process: '+' that it is there, '?' that it is new
// and wants to hear of the others, '-' that it leaves.
func (c *sharer) say(what byte) {
	_ = c.conn.nc.Publish(c.subject, append([]byte{what}, c.id...)) // without a connection nothing hears it
}

// hear notes what a process says of itself. It reports whether one has come or
// gone.
func (c *sharer) hear(said []byte, now time.Time) (changed bool) {
	if len(said) < 2 || string(said[1:]) == c.id {
		return false
	}
	id := string(said[1:])
	_, known := c.others[id]
	switch said[0] {
	case '-':
		delete(c.others, id)
		return known
	case '?':
		c.say('+')
	}
	c.others[id] = now
	return !known
}

// forget forgets the processes that are silent. It reports whether there were
// any.
func (c *sharer) forget(now time.Time) (changed bool) {
	before := len(c.others)
	maps.DeleteFunc(c.others, func(_ string, heard time.Time) bool { return now.Sub(heard) > memberLost })
	return len(c.others) != before
}

// rebalance stops receiving from partitions that belong to other processes, and
// begins to receive from partitions of this process.
func (c *sharer) rebalance(ctx context.Context) {
	for part, of := range assign(append(slices.Collect(maps.Keys(c.others)), c.id), c.parts) {
		stop, has := c.mine[part]
		switch {
		case has && of != c.id:
			stop()
			delete(c.mine, part)
		case !has && of == c.id:
			own, stop := context.WithCancel(ctx)
			c.mine[part] = stop
			c.working.Go(func() { c.receive(own, part) })
		}
	}
}
