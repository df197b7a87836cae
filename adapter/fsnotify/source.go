package fsnotify

import (
	"context"
	"errors"
	"fmt"
	"strings"

	notify "github.com/fsnotify/fsnotify"

	"github.com/golda-dev/golda/coordination/scheduler"
)

// Source is a scheduler.Source whose events are changes of files, of type fsnotify.Event.
type Source struct {
	watcher *notify.Watcher
	paths   []string
}

var _ scheduler.Source = (*Source)(nil)

// Watch starts to watch directories or files. If one of them cannot be watched, none is.
func Watch(paths ...string) (*Source, error) {
	w, err := notify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("fsnotify: %w", err)
	}
	for _, p := range paths {
		if err := w.Add(p); err != nil {
			return nil, errors.Join(fmt.Errorf("fsnotify: watch %s: %w", p, err), w.Close())
		}
	}
	return &Source{w, paths}, nil
}

// Observe notifies of changes until ctx is done or the source is closed; then it closes the source. An error that the
// system reports is an event, too.
func (s *Source) Observe(ctx context.Context, notify func(event any)) error {
	defer s.Close() //nolint:errcheck // there is no caller to return it to
	for {
		select {
		case change, ok := <-s.watcher.Events:
			if !ok {
				return nil
			}
			notify(change)
		case err, ok := <-s.watcher.Errors:
			if !ok {
				return nil
			}
			notify(fmt.Errorf("%s: %w", s, err))
		case <-ctx.Done():
			return nil
		}
	}
}

// Feed submits changes until ctx is done; then it closes the source. It is a source of pipeline.Feed:
//
//	pipeline.Feed("changes", index, src.Feed)
//
// An error that the system reports, such as fsnotify.ErrEventOverflow, is returned: the feed calls Feed again after a pause,
// and the watch goes on meanwhile. After an overflow changes are missing. If each counts, look at all files now and then, too. A
// source that was closed is exhausted.
func (s *Source) Feed(ctx context.Context, submit func(change notify.Event) error) error {
	for {
		select {
		case change, ok := <-s.watcher.Events:
			if !ok {
				return nil
			}
			if err := submit(change); err != nil {
				return errors.Join(err, s.closeAfter(ctx))
			}
		case err, ok := <-s.watcher.Errors:
			if !ok {
				return nil
			}
			return fmt.Errorf("%s: %w", s, err)
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), s.Close())
		}
	}
}

// closeAfter closes the source if ctx is done.
func (s *Source) closeAfter(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return s.Close()
}

// Close ends the watch. It may be called twice. It is not needed for a registered source.
func (s *Source) Close() error { return s.watcher.Close() }

// String names the watched paths, for messages.
func (s *Source) String() string { return "fsnotify of " + strings.Join(s.paths, ", ") }
