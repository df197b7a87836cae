package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/control"
	"github.com/golda-dev/golda/internal/engine"
	"github.com/golda-dev/golda/internal/inbox"
	stores "github.com/golda-dev/golda/internal/letters"
	"github.com/golda-dev/golda/internal/link"
)

// operated is a pipeline as its operator sees it, see [link.Operated].
type operated struct{ p *Pipeline }

func init() { //nolint:gochecknoinits // a pipeline has no methods for its operator
	link.Operate = func(pipeline any) link.Operated { return operated{pipeline.(*Pipeline)} }
}

func (o operated) Began() time.Time { return o.p.host.Base }

func (o operated) Traits() []link.Traits {
	stages := o.p.stages().stages
	all := make([]link.Traits, len(stages))
	for i, c := range stages {
		all[i] = link.Traits{Name: c.Name(), Takes: c.Spec().Takes(), Group: o.groupOf(c), Keyed: c.Spec().IsKeyed(), KeyOf: c.Spec().KeyOf}
	}
	return all
}

func (o operated) Setups() []link.Setup {
	stages := o.p.stages().stages
	all := make([]link.Setup, len(stages))
	for i, c := range stages {
		all[i] = setupOf(c)
		for _, g := range o.p.groups {
			if slices.Contains(g.stages, c) {
				all[i].Group, all[i].Fewest, all[i].Most = g.name, g.fewest, g.most
			}
		}
	}
	return all
}

// setupOf returns how a stage was set up, without its group.
func setupOf(c *engine.Core) link.Setup {
	cfg := c.Inbox().Config()
	set := link.Setup{
		Name: c.Name(), Capacity: cfg.Capacity, Batch: cfg.Batch, Instances: cfg.Instances, TTL: cfg.TTL, Refuses: !cfg.Waits(),
		Attempts: cfg.Retry.Attempts, Pause: cfg.Retry.Backoff, LongestGap: cfg.Retry.Max, Jitter: cfg.Retry.Jitter, Budget: cfg.Retry.Budget,
		Blocking: c.Spec().Blocking(), Keyed: c.Spec().IsKeyed(), Discipline: cfg.Discipline,
	}
	if _, most := c.Bounds(); c.Spec().Grows() {
		set.Instances = max(set.Instances, most)
	}
	if cfg.Rate.N > 0 && cfg.Rate.Per > 0 {
		set.PerSecond, set.Burst = float64(cfg.Rate.N)/cfg.Rate.Per.Seconds(), cfg.Rate.Burst
	}
	for _, x := range []struct {
		is   bool
		text string
	}{
		{cfg.Ordered, "results leave in order"},
		{cfg.Guards != nil, "guards hold commands back"},
		{c.Suspends(), "handlers suspend"},
		{cfg.Holder != nil, "handlers wait for further commands"},
		{cfg.Share != nil, "keys share it"},
		{cfg.RateBy.N > 0, "each key has a rate"},
		{cfg.Linger > 0, "batches linger"},
		{cfg.Overflow == inbox.DropOldest, "a full queue drops its oldest command"},
	} {
		if x.is {
			set.Special = append(set.Special, x.text)
		}
	}
	return set
}

func (o operated) Policies() (policies any, groups []string) { return o.p.control.Policies() }

func (o operated) groupOf(c *engine.Core) string {
	for _, g := range o.p.groups {
		if slices.Contains(g.stages, c) {
			return g.name
		}
	}
	return ""
}

func (o operated) Busy() []link.Busy {
	pools := o.p.pools.list()
	for _, c := range o.p.stages().stages {
		if !slices.Contains(pools, c.Pool) {
			pools = append(pools, c.Pool)
		}
	}
	return engine.Busy(pools)
}

func (o operated) Hottest(stage string, most int, names bool) (keys []link.KeyLoad, whole bool, err error) {
	c, err := o.stage(stage)
	if err != nil {
		return nil, false, err
	}
	top, whole := inbox.Hottest(c.Inbox(), most, names)
	for _, k := range top {
		load := link.KeyLoad{Hash: k.Key, Waiting: k.Waiting, AtWork: k.AtWork, Parked: k.Parked}
		if names {
			load.Name = keyName(c.Spec(), k.First)
		}
		keys = append(keys, load)
	}
	return keys, whole, nil
}

// stage returns a stage by its name.
func (o operated) stage(name string) (*engine.Core, error) {
	stages := o.p.stages().stages
	i := slices.IndexFunc(stages, func(c *engine.Core) bool { return c.Name() == name })
	if i < 0 {
		return nil, fmt.Errorf("pipeline %q: stage %q: %w", o.p.life.name, name, ErrNotPart)
	}
	return stages[i], nil
}

func (o operated) Timers(stage string) (link.Timers, error) {
	c, err := o.stage(stage)
	if err != nil {
		return link.Timers{}, err
	}
	t := c.Spec().Timers()
	add := func(what string, at time.Time) { t.Ticks = append(t.Ticks, link.Tick{What: what, At: at}) }
	if at, ok := inbox.NextRetry(c.Inbox()); ok {
		add("try a command again", o.Began().Add(at))
	}
	for _, f := range o.p.feeds.list() {
		if at := f.cursor.Due(); f.core == c && !at.IsZero() {
			add("submit a command of feed "+f.name, at)
		}
	}
	slices.SortStableFunc(t.Ticks, func(a, b link.Tick) int { return a.At.Compare(b.At) })
	return t, nil
}

// keyName returns the key by which a command waits; nil if it has none, or the
// function for the key panics.
func keyName(of *engine.Spec, cmd any) (key any) {
	defer func() { _ = recover() }() // the command crashes in its stage, too, which says so
	key, _ = of.WaitsBy(cmd)
	return key
}

// operate has the control loop carry out an operation, and waits until it has.
func (o operated) operate(what, who string, do control.Operation) (number uint64, err error) {
	p := o.p
	if p.life.in(made) || p.life.in(starting) {
		return 0, fmt.Errorf("pipeline %q: %s: %w", p.life.name, what, ErrNotRunning)
	}
	entry := new(uint64)
	err = p.request(stopping, func() {}, func() <-chan error { return p.control.Operate(who, do, entry) })
	if err != nil {
		return 0, fmt.Errorf("pipeline %q: %s: %w", p.life.name, what, notPart(err))
	}
	return *entry, nil
}

// notPart returns an error as users of this package know it.
func notPart(err error) error {
	if errors.Is(err, control.ErrNoStage) {
		return fmt.Errorf("%w: %w", ErrNotPart, err)
	}
	return err
}

func (o operated) Pause(who, stage string, on bool) (uint64, error) {
	what := "resume"
	if on {
		what = "pause"
	}
	return o.operate(what, who, control.PauseStage(stage, on))
}

func (o operated) Resize(who, name string, fewest, most int) (uint64, error) {
	return o.operate("resize", who, control.Resize(name, fewest, most))
}

func (o operated) Rate(who, stage string, perSecond float64, burst int) (uint64, error) {
	return o.operate("rate", who, control.HoldRate(stage, controller.Rate{PerSecond: perSecond, Burst: burst}))
}

func (o operated) Capacity(who, stage string, slots int) (uint64, error) {
	return o.operate("capacity", who, control.HoldCapacity(stage, slots))
}

func (o operated) Policy(who string, policies any, d time.Duration) (uint64, error) {
	all := policies.([]controller.Policy)
	if faults := checkPolicies(all, o.p.stages().stages); len(faults) > 0 {
		return 0, fmt.Errorf("pipeline %q: policy: %w", o.p.life.name, errors.Join(faults...))
	}
	return o.operate("policy", who, control.UseFor(all, d))
}

// drain returns a drain of the stages of some names, or of all if none is given.
func (o operated) drain(names []string) (*drain, error) {
	d := &drain{p: o.p, whole: len(names) == 0}
	for _, name := range names {
		in := o.p.inbox(name)
		if in == nil {
			return nil, fmt.Errorf("pipeline %q: stage %q: %w", o.p.life.name, name, ErrNotPart)
		}
		if !slices.Contains(d.chosen, in) {
			d.chosen = append(d.chosen, in)
		}
	}
	byPlace(d.chosen)
	return d, nil
}

func (o operated) Drain(ctx context.Context, who string, stages []string) (uint64, error) {
	d, err := o.drain(stages)
	if err != nil {
		return 0, err
	}
	if !o.p.life.in(running) {
		return 0, fmt.Errorf("pipeline %q: drain: %w", o.p.life.name, ErrNotRunning)
	}
	number := o.Note(who, "entry", names(d.inboxes()), "open", "draining", "asked to")
	return number, o.p.drain(ctx, d)
}

func (o operated) Reopen(who string, stages []string) (uint64, error) {
	d, err := o.drain(stages)
	if err == nil {
		err = o.p.reopen(d)
	}
	if err != nil {
		return 0, err
	}
	return o.Note(who, "entry", names(d.inboxes()), "draining", "open", "asked to"), nil
}

func (o operated) Retry(ctx context.Context, store any, id uint64, ended func(error)) error {
	of, box := &o.p.letters, o.p.letters.box
	inner := map[any]*stores.Store{of.dead: box.Dead, of.quarantine: box.Quarantine, of.failures: box.Failures}
	return inner[store].RetryThen(ctx, id, ended)
}

func (o operated) Decode(stage string, text []byte) (any, error) {
	codec, err := o.p.codecOf(stage)
	if err != nil {
		return nil, err
	}
	return codec.Read(stage, text)
}

func (o operated) Note(who, what, stage string, before, after any, why string) uint64 {
	return o.p.control.Note(who, what, stage, before, after, why)
}
