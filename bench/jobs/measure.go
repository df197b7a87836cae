package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// sample is one measurement of a system.
type sample struct {
	addedRate float64 // jobs a second
	doneRate  float64
	waits     []time.Duration // of urgent jobs
	backlog   time.Duration   // how long the others took meanwhile
	kills     int
	killed    time.Duration // from the first process to the end of the last job
	twice     int           // lines too many
	lost      int           // jobs that the empty queue does not have, and that were not done
	waiting   int           // jobs that were not done, and may be in the queue
}

const (
	slowJob   = 20 * time.Millisecond // of the part with urgent jobs
	killedJob = time.Millisecond      // of the part with kills
	glance    = time.Millisecond      // between two looks at the journal
	// leastPatience is for jobs that no process that is gone has begun.
	leastPatience = 2 * time.Minute
)

// part is a queue with its jobs, for one part of a measurement.
type part struct {
	config
	order

	journal *journal
	redis   *process
	worker  *process
	filled  time.Duration
}

// measure makes one measurement of a system.
func measure(ctx context.Context, c config, s system) (m sample, err error) {
	speed := func(p *part) error { return p.speed(ctx, &m) }
	urgent := func(p *part) error { return p.urgent(ctx, &m) }
	kills := func(p *part) error { return p.kills(ctx, &m) }
	half := max(1, c.jobs/2)
	few := max(1, c.jobs/25)
	err = errors.Join(
		within(ctx, c, s, order{Jobs: c.jobs}, speed),
		within(ctx, c, s, order{Jobs: half, Takes: slowJob, Urgent: min(40, few)}, urgent),
		within(ctx, c, s, order{Jobs: half, Takes: killedJob}, kills))
	return m, err
}

// within makes a part: it fills a queue, and calls f, which starts workers.
func within(ctx context.Context, c config, s system, o order, f func(*part) error) (err error) {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	dir, err := os.MkdirTemp("", "jobs")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	o.System, o.Dir, o.Sync, o.AtOnce, o.InFlight = s.name, dir, c.sync, c.atOnce, c.inFlight
	p := &part{config: c, order: o, journal: journalIn(dir)}
	if s.redis {
		p.Redis = filepath.Join(dir, "redis.sock")
		if p.redis, err = start(ctx, p.with("redis")); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, p.redis.stop()) }()
		if err := awaitRedis(ctx, p.Redis); err != nil {
			return errors.Join(err, errors.New(p.redis.stderr.String()))
		}
	}
	if err := p.fill(ctx); err != nil {
		return err
	}
	defer func() {
		if p.worker != nil {
			err = errors.Join(err, p.worker.stop())
		}
	}()
	return f(p)
}

// with returns the order of a child.
func (p *part) with(do string) order {
	o := p.order
	o.Do = do
	return o
}

func (p *part) fill(ctx context.Context) error {
	child, err := start(ctx, p.with("fill"))
	if err != nil {
		return err
	}
	text, err := child.line(ctx)
	if err != nil {
		return errors.Join(err, child.stop())
	}
	ns, err := strconv.ParseInt(text, 10, 64)
	p.filled = time.Duration(ns)
	return errors.Join(err, child.stop())
}

// begin starts a process that works.
func (p *part) begin(ctx context.Context) (err error) {
	if p.worker, err = start(ctx, p.with("work")); err != nil {
		return err
	}
	_, err = p.worker.line(ctx) // it is ready
	return err
}

// until waits until the journal is as wanted, and fails if no line comes
// for a long time.
func (p *part) until(ctx context.Context, wanted func() bool) error {
	for lines, moved := 0, time.Now(); ; time.Sleep(glance) {
		if err := p.journal.update(); err != nil {
			return err
		}
		if wanted() {
			return nil
		}
		if p.journal.lines > lines {
			lines, moved = p.journal.lines, time.Now()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.worker.ended:
			return fmt.Errorf("the process has ended: %w", p.worker.failed)
		default:
		}
		if time.Since(moved) > max(p.patience, leastPatience) {
			return fmt.Errorf("%w: %d of %d jobs were done", errStill, len(p.journal.done), p.Jobs+p.Urgent)
		}
	}
}

var errStill = errors.New("nothing moves")

func (p *part) isDone() bool { return len(p.journal.done) == p.Jobs+p.Urgent }

// speed counts from the first line to the last one: the start of the process is
// not in it.
func (p *part) speed(ctx context.Context, m *sample) error {
	m.addedRate = float64(p.Jobs) / p.filled.Seconds()
	if err := p.begin(ctx); err != nil {
		return err
	}
	if err := p.until(ctx, p.isDone); err != nil {
		return err
	}
	m.doneRate = float64(p.Jobs-1) / p.journal.latest.Sub(p.journal.first).Seconds()
	return nil
}

func (p *part) urgent(ctx context.Context, m *sample) error {
	if err := p.begin(ctx); err != nil {
		return err
	}
	if err := p.until(ctx, p.isDone); err != nil {
		return err
	}
	m.waits, m.backlog = p.journal.waits, p.journal.latest.Sub(p.journal.first)
	slices.Sort(m.waits)
	return nil
}

// kills kills the process whenever another part of the jobs is done.
func (p *part) kills(ctx context.Context, m *sample) error {
	begin := time.Now()
	for k := range p.config.kills {
		if err := p.begin(ctx); err != nil {
			return err
		}
		if err := p.until(ctx, func() bool { return p.journal.lines >= (k+1)*p.Jobs/(p.config.kills+1) }); err != nil {
			return err
		}
		p.worker.kill()
		m.kills++
	}
	if err := p.begin(ctx); err != nil {
		return err
	}
	left, err := p.untilEmpty(ctx)
	if err != nil {
		return err
	}
	m.killed = p.journal.latest.Sub(begin)
	m.twice = p.journal.lines - len(p.journal.done)
	if missing := p.Jobs - len(p.journal.done); left == 0 {
		m.lost = missing
	} else {
		m.waiting = missing
	}
	return nil
}

// untilEmpty waits until the queue is empty, or nothing has moved for a long
// time. It returns how many jobs are left.
func (p *part) untilEmpty(ctx context.Context) (left int, err error) {
	lines, moved := p.journal.lines, time.Now()
	for {
		if left, err = p.worker.left(ctx); err != nil {
			return left, err
		}
		if err := p.journal.update(); err != nil || left == 0 {
			return left, err
		}
		if p.journal.lines > lines {
			lines, moved = p.journal.lines, time.Now()
		}
		if time.Since(moved) > p.patience {
			return left, nil
		}
		select {
		case <-ctx.Done():
			return left, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}
