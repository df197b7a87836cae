package pipeline

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/engine"
)

// feeds are the feeds of a pipeline.
type feeds struct {
	host feedHost

	mu        sync.Mutex // guards the rest
	all       []*feeding
	gone      []*feeding // stopped, and their names are used again
	active    int        // not exhausted and not stopped
	done      int        // exhausted
	closed    bool       // no further feed may start
	exhausted chan struct{}
}

func newFeeds(pipeline string, log *slog.Logger) *feeds {
	fs := &feeds{exhausted: make(chan struct{})}
	fs.host = feedHost{pipeline: pipeline, log: log, exhausted: func(*feeding) { fs.ended(true) }}
	return fs
}

// add adds feeds that are started later. It reports false if there may be none
// any more.
func (fs *feeds) add(parts []*fed) (added []*feeding, ok bool) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.closed {
		return nil, len(parts) == 0
	}
	for _, part := range parts {
		f := newFeeding(&fs.host, part)
		f.cursor.Whole = fs.host.whole
		fs.all = slices.DeleteFunc(fs.all, func(old *feeding) bool {
			same := old.name == part.name
			if same {
				fs.gone = append(fs.gone, old)
			}
			return same
		})
		fs.all = append(fs.all, f)
		added = append(added, f)
	}
	fs.active += len(added)
	return added, true
}

// names returns the names that are in use.
func (fs *feeds) names() (all []string) {
	for _, f := range fs.list() {
		if f.is() != feedStopped {
			all = append(all, f.name)
		}
	}
	return all
}

// allExhausted reports whether no feed has anything more to submit.
func (fs *feeds) allExhausted() bool {
	return !slices.ContainsFunc(fs.list(), func(f *feeding) bool { return f.is() != feedExhausted })
}

func (fs *feeds) list() []*feeding {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return slices.Clone(fs.all)
}

// begin sets what the feeds need of the pipeline that starts with ctx.
func (fs *feeds) begin(ctx context.Context, host feedHost) {
	host.pipeline, host.log, host.whole, host.exhausted, host.base = fs.host.pipeline, fs.host.log, fs.host.whole, fs.host.exhausted, context.Background()
	if command.Submitted(ctx, host.env.Host) != nil {
		host.base = context.WithoutCancel(ctx)
	}
	fs.host = host
}

// start starts feeds, unless the pipeline stops already.
func (fs *feeds) start(some []*feeding) {
	for _, f := range some {
		if err := f.start(); err != nil {
			fs.host.gaveUp(fmt.Errorf("feed %q: start: %w", f.name, err))
		}
	}
}

// ended counts a feed that has ended for good. The last one ends the run of the
// pipeline.
func (fs *feeds) ended(exhausted bool) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.active--
	if exhausted {
		fs.done++
	}
	if fs.active == 0 && fs.done > 0 && !fs.closed {
		fs.closed = true
		close(fs.exhausted)
	}
}

// stop stops all sources. The channel receives the names of the feeds whose
// sources did not return within the grace.
func (fs *feeds) stop(grace time.Duration) <-chan []string {
	fs.mu.Lock()
	fs.closed = true
	all := slices.Clone(fs.all)
	fs.mu.Unlock()
	left := make(chan []string, 1)
	go func() {
		_, names := stopAll(all, grace)
		left <- names
	}()
	return left
}

// stopAll stops feeds, all at once. It returns how many had not ended before,
// and the names of those whose sources did not return in time.
func stopAll(some []*feeding, grace time.Duration) (lived int, left []string) {
	var mu sync.Mutex
	var wait sync.WaitGroup
	for _, f := range some {
		wait.Go(func() {
			was, stays := f.stop(grace)
			mu.Lock()
			defer mu.Unlock()
			if was {
				lived++
			}
			if stays {
				left = append(left, "feed "+f.name)
			}
		})
	}
	wait.Wait()
	slices.Sort(left)
	return lived, left
}

// stopOf stops the feeds of a stage, and returns how many had not ended before.
func (fs *feeds) stopOf(c *engine.Core, grace time.Duration) (lived int) {
	lived, left := stopAll(slices.DeleteFunc(fs.list(), func(f *feeding) bool { return f.core != c }), grace)
	for _, name := range left {
		fs.host.log.Warn("a source did not return and was abandoned", "source", name)
	}
	return lived
}

// feeds reports whether there is a feed of a stage.
func (fs *feeds) feeds(c *engine.Core) bool {
	return slices.ContainsFunc(fs.list(), func(f *feeding) bool { return f.core == c })
}

// save saves the last checkpoints. It returns the names of the feeds for which
// that failed or took longer than the grace.
func (fs *feeds) save(grace time.Duration) (left []string) {
	fs.mu.Lock()
	all := slices.Concat(fs.all, fs.gone)
	fs.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	for _, f := range all {
		f.closeSaver()
	}
	for _, f := range all {
		if err := f.lastSaved(ctx); err != nil {
			fs.host.log.Error("the last checkpoint is not saved", "feed", f.name, "reason", err)
			left = append(left, "checkpoint of feed "+f.name)
		}
	}
	return left
}

// drop forgets feeds that were added and could not start.
func (fs *feeds) drop(some []*feeding) {
	fs.mu.Lock()
	fs.all = slices.DeleteFunc(fs.all, func(f *feeding) bool { return slices.Contains(some, f) })
	fs.mu.Unlock()
	for range some {
		fs.ended(false)
	}
}
