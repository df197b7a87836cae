package simulator

import (
	"math"
	"time"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/internal/line"
	"github.com/golda-dev/golda/internal/rate"
	"github.com/golda-dev/golda/stage/queue"
)

// station is a stage in one process: an inbox of the engine, its workers, and
// the measurements. The inbox alone decides which commands wait, are refused or
// are shed, and which workers are woken.
type station struct {
	*node

	run     *run
	process *process
	inbox   *inbox.Inbox
	pool    *pool // whose workers visit it; nil: its own
	want    int   // of its own workers
	set     setting
	handled uint64
	moved   []uint64 // commands that other stages, and this one, have handed over, by stage
	queued  float64  // commands in the queue, multiplied by seconds
	length  int      // of the queue, up to since
	since   time.Duration
	dirty   bool // length may have changed
}

// setting is the setting of a stage's knobs.
type setting struct {
	discipline string
	admission  controller.Admission
}

func (p *process) newStation(n *node) *station {
	r := p.run
	s := &station{node: n, run: r, process: p, since: r.now, moved: make([]uint64, len(r.nodes))}
	s.set = setting{discipline: queue.FIFO{}.Name(), admission: n.Admission}
	if n.Discipline != nil {
		s.set.discipline = n.Discipline.Name()
	}
	s.inbox = inbox.New(n.config())
	s.inbox.Owner, s.inbox.Place = s, n.id
	p.pipeline.Attach(s.inbox)
	s.inbox.Phases().Open()
	return s
}

// config is the configuration of a stage's inbox, as the options of package
// stage make it.
func (n *node) config() inbox.Config {
	cfg := inbox.Config{
		Name: n.Name, Capacity: n.Capacity, Batch: n.Batch, TTL: n.TTL, Instances: n.Instances, Discipline: n.Discipline,
		Retry: inbox.Retry{Attempts: 1}, StreakEnds: time.Minute,
	}
	if n.Reject {
		cfg.Overflow = inbox.Reject
	}
	if n.Rate.PerSecond > 0 {
		cfg.Rate = rate.Limit{N: 1, Per: time.Duration(1e9 / n.Rate.PerSecond), Burst: max(n.Rate.Burst, 1)}
	}
	if x := n.Retry; x.Attempts > 1 {
		cfg.Retry = inbox.Retry{Attempts: x.Attempts, Backoff: x.Pause, Max: x.Longest, Jitter: x.Jitter, Budget: x.Budget}
	}
	switch {
	case n.Lanes > 0:
		cfg.Key = func(load any) uint64 { return 1 + uint64(load.(*task).key)%uint64(n.Lanes) }
	case n.Fair != nil:
		cfg.Share = func(load any) line.Rank {
			t := load.(*task)
			return line.Rank{Key: 1 + uint64(t.source), Order: int64(t.weight)}
		}
		cfg.AtOnce, cfg.KeyCapacity = n.Fair.AtOnce, n.Fair.Capacity
		if cfg.KeyCapacity == 0 {
			cfg.KeyCapacity = line.QuarterOfCapacity
		}
	}
	return cfg
}

// changed notes that the length of the queue may have changed.
func (s *station) changed() {
	if !s.dirty {
		s.dirty = true
		s.run.dirty = append(s.run.dirty, s)
	}
}

// touch counts the commands in the queue up to now.
func (s *station) touch() {
	s.queued += (s.run.now - s.since).Seconds() * float64(s.length)
	s.since = s.run.now
}

// offer submits a command of a source.
func (s *station) offer(c *task) error {
	err := s.inbox.Senders().Offer(&command.Envelope{Load: c}, s.run.fleet != nil)
	s.changed()
	return err
}

// begin has a worker handle a command.
func (s *station) begin(w *worker, c *task) {
	s.wait.record(s.run, c.at, s.run.now)
	w.began, w.paused = s.run.now, s.Waits == nil
	d := s.draw()
	if s.Computes && s.process.cpu.cores > 0 {
		s.process.cpu.add(s.run, w, d)
		return
	}
	s.run.calendar.enter(event{at: s.run.now + d, kind: finished, id: w.id, gen: w.gen})
}

// draw returns how long the next handler takes.
func (s *station) draw() time.Duration {
	if t, ok := s.Service.(Trace); ok {
		d := t[s.traced%len(t)]
		s.traced++
		return min(d, longest)
	}
	return min(max(s.Service.Draw(s.service), 0), longest)
}

// computed has a handler that has computed wait, if it does, and end.
func (w *worker) computed() {
	if w.paused {
		w.finish()
		return
	}
	w.paused = true
	d := min(max(w.at.Waits.Draw(w.at.pauses), 0), longest)
	w.run.calendar.enter(event{at: w.run.now + d, kind: finished, id: w.id, gen: w.gen})
}

// answer ends a handler without an error: the command goes on, or ends.
func (s *station) answer(w *worker, e *command.Envelope, c *task) {
	s.latency.record(s.run, c.at, s.run.now)
	for _, to := range s.emit {
		for range s.emits(to.share) {
			child := s.run.child(c)
			w.tally.Emitted++
			w.load(to, command.Emitted(child, nil, s.id))
		}
	}
	to, ok := s.route()
	if !ok {
		w.tally.OK++
		s.run.drop(c)
		return
	}
	w.tally.Forwarded++
	c.at = s.run.now
	var on command.Envelope
	on.Continue(c, e)
	w.load(to, on)
}

// emits returns how many commands an edge gets.
func (s *station) emits(share float64) int {
	n := int(share)
	if rest := share - float64(n); rest > 0 && s.routes.Float64() < rest {
		n++
	}
	return n
}

// route returns the edge along which the command is forwarded; ok is false if
// it ends here.
func (s *station) route() (e edge, ok bool) {
	if len(s.forward) == 0 {
		return edge{}, false
	}
	at := s.routes.Float64()
	for _, e := range s.forward {
		if at < e.share {
			return e, true
		}
		at -= e.share
	}
	return edge{}, false
}

// scale sets the number of the station's own workers.
func (s *station) scale(n int) {
	own := s.inbox.Workers()
	if more := n - s.want; more > 0 {
		for range more - own.Unshrink(more) {
			w := s.run.newWorker(s.process, s, nil)
			if s.inbox.Instances().Claim(&w.Member) {
				w.Instance = w
			}
			own.Join(&w.Member, false)
			s.run.wake(w)
		}
	} else if more < 0 {
		own.Shrink(-more)
	}
	s.want = n
	s.changed()
}

// apply applies a decision about a knob of the station, and reports false if it
// is not simulated.
func (s *station) apply(c controller.Change) bool {
	defer s.changed()
	adjust := func(change func(k *inbox.Knobs)) { s.inbox.Settings().Adjust(change) }
	switch c.What {
	case controller.KnobCapacity:
		adjust(func(k *inbox.Knobs) { k.Capacity = c.After.(int) })
	case controller.KnobInstances:
		adjust(func(k *inbox.Knobs) { k.Instances = c.After.(int) })
	case controller.KnobPriority:
		adjust(func(k *inbox.Knobs) { k.Priority = c.After.(int) })
	case controller.KnobBatch:
		b := c.After.(controller.Batch)
		adjust(func(k *inbox.Knobs) { k.Batch, k.Linger = b.Max, b.Linger })
	case controller.KnobSojourn:
		adjust(func(k *inbox.Knobs) { k.Sojourn = uint32(c.After.(time.Duration) / time.Microsecond) })
	case controller.KnobDiscipline:
		s.order(c.After.(string))
	case controller.KnobLimit, controller.KnobRate, controller.KnobShed, controller.KnobGate:
		admit(&s.set.admission, c)
		s.inbox.Settings().SetAdmission(s.set.admission)
	default:
		return false
	}
	return true
}

// order gives the queue a discipline: the discipline of the model if it has
// that name, with its parameters.
func (s *station) order(name string) {
	s.set.discipline = name
	if s.Discipline != nil && s.Discipline.Name() == name {
		s.inbox.Settings().Order(s.Discipline)
	} else if d, err := queue.ByName(name); err == nil { // Settle has checked the name
		s.inbox.Settings().Order(d)
	}
}

func admit(a *controller.Admission, c controller.Change) {
	switch c.What {
	case controller.KnobRate:
		a.Rate = c.After.(controller.Rate)
	case controller.KnobLimit:
		a.Limit = c.After.(int)
	case controller.KnobShed:
		a.Shed = c.After.(controller.Shed)
	default:
		a.Gate, _ = c.After.(controller.Gate)
	}
}

// counters are the accounts of an inbox as policies see them.
func counters(a *inbox.Accounts) controller.Counters {
	return controller.Counters{
		Accepted: a.Counts.Accepted, OK: a.Counts.OK, Forwarded: a.Counts.Forwarded, Errors: a.Counts.Errors,
		Shed: a.Counts.Shed, DeadLettered: a.Counts.DeadLettered, Rejected: a.Counts.Rejected,
		Busy: a.Counts.BusyTime, Blocked: a.Counts.BlockedTime, Idle: a.Counts.IdleTime,
		Visits: a.Counts.Visits, EmptyVisits: a.Counts.EmptyVisits,
	}
}

// stats returns the stage as policies see it.
func (s *station) stats(a *inbox.Accounts) controller.StageStats {
	k := &a.Knobs
	st := controller.StageStats{
		ID: controller.StageID(s.id), Name: s.Name, Rank: s.rank, Cyclic: s.cyclic, Next: s.next,
		QueueLen: a.Due, QueueCap: k.Capacity, OldestWait: a.Queue.Oldest, InHand: a.InBatches, Submitters: a.Queue.Submitters,
		Busy: a.Workers.Busy, Blocked: a.Workers.Blocked, Stalled: s.pool != nil && a.Stalled,
		Needs: min(s.Workers, k.Instances), Pool: s.Name, Instances: k.Instances, FreeInstances: max(k.Instances-a.Out, 0),
		Priority: k.Priority, Discipline: s.set.discipline, Sojourn: time.Duration(k.Sojourn) * time.Microsecond,
		Batch: controller.Batch{Max: k.Batch, Linger: k.Linger}, Enabled: true, Blocking: !s.Computes || s.Blocking, Quality: 1,
		Admission: s.set.admission, Priorities: s.inbox.Settings().Priorities(), Total: counters(a),
	}
	for from, n := range s.moved {
		if n > 0 {
			st.Before, st.Inflows = append(st.Before, controller.StageID(from)), append(st.Inflows, n)
		}
	}
	if s.pool != nil {
		st.Pool = s.pool.name
	} else {
		st.Workers, st.MinWorkers, st.MaxWorkers = s.want, s.Workers, s.Most
	}
	return st
}

// everyInstance is how many instances a stage has that bounds them not.
const everyInstance = math.MaxInt32
