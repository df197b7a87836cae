package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Jobs are added by one process and handled by another one, so that the second
// may be killed, and starts with nothing in memory. They are this program, too.

// childWord is the first argument of such a process; the second is its order.
const childWord = "child"

// order is for a child.
type order struct {
	Do       string // "fill", "work" or "redis"
	System   string
	Dir      string // of the queue and of the log
	Redis    string // the socket of the server
	Sync     bool
	AtOnce   int
	InFlight int           // golda: MaxInFlight, as a multiple of AtOnce
	Jobs     int           // fill: how many jobs
	Takes    time.Duration // work: how long a job takes on average, besides its line
	Urgent   int           // work: how many urgent jobs are added
}

const (
	attempts    = 1000 // of a job
	retryAfter  = 50 * time.Millisecond
	urgentEvery = 25 * time.Millisecond
	callers     = 16 // add jobs at once
)

// The words of a child and its parent.
const (
	askLeft = "left"  // the parent: how many jobs are in the queue?
	isReady = "ready" // the child is about to handle jobs
)

// journalName is the file of the lines of the handlers: the ID, when the job
// was added, when it was begun and when it was done.
const journalName = "journal"

// child runs the program as a child.
func child(args []string) int {
	var o order
	if err := json.Unmarshal([]byte(strings.Join(args, " ")), &o); err != nil {
		return complain(os.Stderr, statusUsage, fmt.Errorf("%s: %w", childWord, err))
	}
	if err := o.do(); err != nil {
		return complain(os.Stderr, statusFailed, fmt.Errorf("%s: %w", o.Do, err))
	}
	return statusOK
}

func (o order) do() (err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if o.Do == "redis" {
		return o.serveRedis()
	}
	s, known := systemNamed(o.System)
	if !known {
		return fmt.Errorf("no system %q", o.System)
	}
	q, err := s.open(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, q.close(context.WithoutCancel(ctx))) }()
	if o.Do == "fill" {
		return o.fill(ctx, q)
	}
	return o.work(ctx, cancel, q)
}

// fill adds jobs from several goroutines, each of which waits for the system
// each time, and prints how long that took.
func (o order) fill(ctx context.Context, q queue) error {
	var next atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, callers)
	begin := time.Now()
	for k := range callers {
		wg.Go(func() {
			for errs[k] == nil {
				n := int(next.Add(1)) - 1
				if n >= o.Jobs {
					return
				}
				errs[k] = q.add(ctx, job{ID: "j" + strconv.Itoa(n), Added: time.Now().UnixNano()})
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	_, err := fmt.Println(time.Since(begin).Nanoseconds())
	return err
}

// work handles jobs until the standard input ends.
func (o order) work(ctx context.Context, cancel func(), q queue) (err error) {
	journal, err := os.OpenFile(filepath.Join(o.Dir, journalName), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, journal.Close()) }()
	go o.answer(ctx, cancel, q)
	_, _ = fmt.Println(isReady)
	var adding sync.WaitGroup
	var added error
	adding.Go(func() { added = o.addUrgent(ctx, q) })
	err = q.work(ctx, func(j job) error {
		begun := time.Now()
		time.Sleep(o.takes(j))
		_, err := fmt.Fprintf(journal, "%s %d %d %d\n", j.ID, j.Added, begun.UnixNano(), time.Now().UnixNano()) // one write: a kill does not part it
		return err
	})
	cancel()
	adding.Wait()
	return errors.Join(err, added)
}

// takes returns how long a job takes: from half of order.Takes to one and a
// half, so that jobs do not end at the same time. For the same job it is the
// same in each system.
func (o order) takes(j job) time.Duration {
	if o.Takes == 0 {
		return 0
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(j.ID))
	return o.Takes/2 + time.Duration(h.Sum32())%o.Takes
}

// answer answers the parent, and cancels when the standard input ends.
func (o order) answer(ctx context.Context, cancel func(), q queue) {
	defer cancel()
	for asked := bufio.NewScanner(os.Stdin); asked.Scan(); {
		n, err := q.left(ctx)
		if err != nil {
			_, _ = fmt.Fprintln(os.Stderr, err)
			n = -1
		}
		_, _ = fmt.Println(askLeft, n)
	}
}

// addUrgent adds urgent jobs, one after the other.
func (o order) addUrgent(ctx context.Context, q queue) error {
	for k := range o.Urgent {
		select {
		case <-time.After(urgentEvery):
		case <-ctx.Done():
			return nil
		}
		if err := q.add(ctx, job{ID: "u" + strconv.Itoa(k), Urgent: true, Added: time.Now().UnixNano()}); err != nil {
			return err
		}
	}
	return nil
}

// untilEOF returns when the standard input ends: the parent has closed it, or
// is gone.
func untilEOF() { _, _ = io.Copy(io.Discard, os.Stdin) }
