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

// Watch begins to watch the directories or files. If one of them cannot be watched, none is.
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

// Observe notifies of changes until ctx is done or the source is closed. It closes it. An
// error that the system tells is an event, too.
func (s *Source) Observe(ctx context.Context, notify func(event any)) error {
	defer s.Close() //nolint:errcheck // nothing can be done, and nobody waits for it
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

// Close ends the watch. To close twice is fine. Who has registered the source need not.
func (s *Source) Close() error { return s.watcher.Close() }

// String names what is watched, for messages.
func (s *Source) String() string { return "fsnotify of " + strings.Join(s.paths, ", ") }
