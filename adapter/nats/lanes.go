package nats

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/golda-dev/golda/adapter/nats/jobs"
	"github.com/golda-dev/golda/internal/link"
)

// The inlet with lanes, see [Options.Lanes], has a partition for each lane, and
// the processes ask the partitions in turns, as in an inlet that keys share: see
// shares.go. The options have the weights of lanes, which do not change with the
// commands.
//
// The subject of a message has two words after the subject of the inlet: the
// lane, and a hash of the ID or the key of a job. So the server can compare the
// messages of one key in all lanes.

// maxLanes is how many lanes an inlet may have. Each is a consumer in the
// server, and a lane without messages a request that waits there.
const maxLanes = 32

// noWord is the last word of the subject of a message in a lane that is no job
// with an ID or a key.
const noWord = "-"

var (
	errLanesElsewhere = errors.New("it has lanes: give NewInlet the same Options.Lanes and Lane as in the other processes")
	errNoLanes        = errors.New("it has no lanes: set Options.Lanes")
)

// inLanes returns the partitioning of an inlet with lanes.
func inLanes[C any](lanes map[string]int, of func(cmd C) string) partitioning[C] {
	p := partitioning[C]{parts: len(lanes), lanes: slices.Sorted(maps.Keys(lanes)), weights: make(weights, len(lanes))}
	for part, name := range p.lanes {
		p.weights[part].Store(int64(lanes[name]))
	}
	p.fair = func(cmd C) (part int, weight int64, err error) {
		defer func() {
			if v := recover(); v != nil {
				err = fmt.Errorf("Options.Lane panicked: %v\n%s", v, debug.Stack())
			}
		}()
		if part, err = p.laneOf(of(cmd)); err != nil {
			return 0, 0, fmt.Errorf("Options.Lane: %w", err)
		}
		return part, p.weights.of(part), nil
	}
	return p
}

// laneOf returns the partition of a lane.
func (p partitioning[C]) laneOf(name string) (part int, err error) {
	if p.lanes == nil {
		return 0, errNoLanes
	}
	part, found := slices.BinarySearch(p.lanes, name)
	if !found {
		return 0, fmt.Errorf("the lane %.64q is none of %s", name, strings.Join(p.lanes, laneComma))
	}
	return part, nil
}

// checkLanes returns all that is wrong with the lanes.
func (o Options[C]) checkLanes(fault func(wrong bool, format string, args ...any)) {
	fault((len(o.Lanes) > 0) != (o.Lane != nil), "Lanes and Lane need one another: Lane returns the lane of a command")
	fault(len(o.Lanes) > maxLanes, "Lanes has %d lanes, and may have %d", len(o.Lanes), maxLanes)
	fault(len(o.Lanes) > 0 && o.Fair != nil, "Lanes and Fair are set, and an inlet has one of them: use stage.Fair in the stage behind an inlet with lanes")
	for _, name := range slices.Sorted(maps.Keys(o.Lanes)) {
		fault(!validName.MatchString(name), "the lane %.128q must be of 1 to 64 letters, digits, - and _", name)
		fault(o.Lanes[name] < 1, "the weight of the lane %.128q is %d, and must be at least 1", name, o.Lanes[name])
	}
}

var errInFlight = errors.New("it is in flight: a process handles it, or it is delivered again before the jobs that wait")

// SetLane moves a job that [Inlet.Jobs] has returned to another lane of an inlet
// with Options.Lanes, and reports whether it was still where it was. In the
// queue it is the last one of the lane then, with another Sequence and Place; a
// job that waits for its time has the lane from then on. A job that has the lane
// stays as it is. A job in flight is refused; a dead one, or one that is being
// moved to the queue, stays as it is, and SetLane returns false.
//
// A job with an ID or a Key stays the only one. If this process is killed
// meanwhile, or the server does not answer, the job may be in both lanes: then
// it is done twice, unless one of the two is canceled. So it may be if a process
// receives it at the same time. It is never lost.
func (i *Inlet[C]) SetLane(ctx context.Context, j jobs.Job, lane string) (moved bool, err error) {
	link.CheckContext(ctx, "nats: SetLane")
	if moved, err = i.setLane(ctx, j, lane); err != nil {
		return false, fmt.Errorf("nats: inlet %q: set the lane of job %s: %w", i.name, j.Place, err)
	}
	return moved, nil
}

func (i *Inlet[C]) setLane(ctx context.Context, j jobs.Job, lane string) (moved bool, err error) {
	if _, err := i.keys.laneOf(lane); err != nil {
		return false, err
	}
	now, err := i.look(ctx, j)
	if err != nil || now == nil {
		return false, err
	}
	switch row := now.row(); {
	case row.State == jobs.InFlight:
		return false, errInFlight
	case row.State == jobs.Dead:
		return false, nil
	case row.Lane == lane:
		return true, nil
	case row.State == jobs.Delayed:
		return i.replaceLater(ctx, now, func(m *natsgo.Msg) { m.Header.Set(headerPartition, lane) })
	}
	m, err := i.inLane(ctx, now, lane)
	if err != nil {
		return false, err
	}
	done, err := i.publishNow(ctx, m)
	if isTaken(err) {
		return false, nil // it is done, or in another lane
	}
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), longestRetry) // or else it stays in both lanes
	defer cancel()
	return i.leave(ctx, j, done.Sequence)
}

// inLane returns a copy of the message of a job, in another lane. The server
// takes it only if the job is the last one with its ID or key.
func (i *Inlet[C]) inLane(ctx context.Context, now *seen, lane string) (*natsgo.Msg, error) {
	m := &natsgo.Msg{Data: now.Data, Header: keptHeaders(now.Header)}
	word := i.wordIn(now.Subject)
	i.address(m, lane, word)
	if word != "" {
		i.replaces(m, now.Sequence)
	}
	if left, err := time.ParseDuration(m.Header.Get(headerTimeLeft)); err == nil { // of its deadline, when it was published
		_, there, err := i.serverNow(ctx)
		if err != nil {
			return nil, err
		}
		m.Header.Set(headerTimeLeft, max(left-there.Sub(now.Time), 0).String())
	}
	return m, nil
}

// leave removes a job that has a copy in another lane. If it does not, because a
// process has received the job meanwhile, or another call has removed it, leave
// removes the copy. So of several calls one copy stays.
func (i *Inlet[C]) leave(ctx context.Context, j jobs.Job, copied uint64) (moved bool, err error) {
	now, err := i.look(ctx, j)
	if err != nil {
		return false, err
	}
	isInFlight := now != nil && now.row().State == jobs.InFlight
	if now != nil && !isInFlight {
		if moved, err = i.remove(ctx, now.stream, j.Sequence); moved || err != nil {
			return moved, err
		}
	}
	if _, err = i.remove(ctx, i.stream, copied); err == nil && isInFlight {
		err = errInFlight
	}
	return false, err
}

// subjectIn returns the subject of the messages in a partition with the last
// word of a job. The partition and the word may be empty, or a wildcard.
func (i *Inlet[C]) subjectIn(part, word string) string {
	subject := i.names.subject
	if part != "" {
		subject += "." + part
	}
	if word == "" && i.keys.lanes != nil {
		word = noWord
	}
	if word != "" {
		subject += "." + word
	}
	return subject
}

// wordIn returns the last word of the subject of a job, empty if it has neither
// an ID nor a key.
func (i *Inlet[C]) wordIn(subject string) string {
	rest := strings.TrimPrefix(strings.TrimPrefix(subject, i.names.subject), ".")
	if i.keys.lanes != nil {
		_, rest, _ = strings.Cut(rest, ".")
	}
	if rest == noWord {
		return ""
	}
	return rest
}

// consumers returns the names of the consumers of the inlet by their lanes; the
// only one of an inlet without lanes has the empty lane.
func (i *Inlet[C]) consumers() map[string]string {
	if i.keys.lanes == nil {
		return map[string]string{"": consumerName}
	}
	all := map[string]string{}
	for part, name := range i.keys.lanes {
		all[name] = consumerOf(part)
	}
	return all
}
