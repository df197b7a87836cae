package fsnotify

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	notify "github.com/fsnotify/fsnotify"

	"github.com/golda-dev/golda/coordination/scheduler"
)

// Source is a scheduler.Source whose events are changes of files, of type
// fsnotify.Event.
type Source struct {
	watcher *notify.Watcher
	paths   []string

	// Of the goroutine that observes or feeds.
	gone    bool // a path could not be watched again
	suspect bool // a path was not watched when that was looked at last; an event may say why
}

var _ scheduler.Source = (*Source)(nil)

// Watch starts to watch directories or files. If one of them cannot be watched,
// Watch fails and watches nothing. It is an error to give no path, or an empty
// one.
func Watch(paths ...string) (*Source, error) {
	if len(paths) == 0 {
		return nil, errors.New("fsnotify: Watch: there is no path")
	}
	if i := slices.Index(paths, ""); i >= 0 {
		return nil, fmt.Errorf("fsnotify: Watch: path %d is empty", i+1)
	}
	for i, p := range paths {
		if strings.ContainsRune(p, 0) { // the system would watch the path up to it
			return nil, fmt.Errorf("fsnotify: Watch: path %d, %.256q, has a zero byte", i+1, p)
		}
	}
	w, err := notify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("fsnotify: %w", err)
	}
	s := &Source{watcher: w}
	for _, p := range paths {
		if err := w.Add(p); err != nil {
			return nil, errors.Join(fmt.Errorf("fsnotify: watch %.4096s: %w", p, err), w.Close())
		}
		s.paths = append(s.paths, filepath.Clean(p))
	}
	return s, nil
}

// lookTime is how often a source checks that it still watches its paths: the
// system does not report that a file system was unmounted. It is a variable for
// tests.
var lookTime = 5 * time.Second

// look watches the paths again that are not watched, unless the event that says
// why may still come: it waits for that until the next look.
func (s *Source) look(found func(notify.Event) error) error {
	lacking := s.lacking()
	if len(lacking) > 0 && (s.suspect || s.gone) {
		return s.rewatch(found, lacking)
	}
	s.suspect = len(lacking) > 0
	return nil
}

// lacking returns the paths that are not watched.
func (s *Source) lacking() (paths []string) {
	watched := s.watcher.WatchList()
	for _, p := range s.paths {
		if !slices.Contains(watched, p) {
			paths = append(paths, p)
		}
	}
	return paths
}

// rewatch watches paths again, and calls found with a Create event for each
// path that exists. Its error names the paths that do not.
func (s *Source) rewatch(found func(notify.Event) error, paths []string) error {
	var errs []error
	for _, p := range paths {
		switch err := s.watcher.Add(p); {
		case errors.Is(err, notify.ErrClosed):
			return nil
		case err != nil:
			errs = append(errs, fmt.Errorf("fsnotify: %s was removed or renamed, and is not watched: %w", p, err))
		default:
			if err := found(notify.Event{Name: p, Op: notify.Create}); err != nil {
				return err
			}
		}
	}
	s.gone, s.suspect = len(errs) > 0, false
	return errors.Join(errs...)
}

// follow watches the path of a change again if it was removed or renamed.
func (s *Source) follow(change notify.Event, found func(notify.Event) error) error {
	path := filepath.Clean(change.Name)
	if !change.Has(notify.Remove) && !change.Has(notify.Rename) || !slices.Contains(s.paths, path) {
		return nil
	}
	return s.rewatch(found, []string{path})
}

// Observe notifies of changes until ctx is done or the source is closed; then
// it closes the source. An error that the system reports is an event, too, and
// so is one for a path that was removed or renamed. When such a path is there
// again, Observe notifies of a Create of it.
func (s *Source) Observe(ctx context.Context, changed func(event any)) error {
	defer s.Close() //nolint:errcheck // there is no caller to return it to
	look := time.NewTicker(lookTime)
	defer look.Stop()
	found := func(change notify.Event) error { changed(change); return nil }
	before := ""
	report := func(err error) { // once, however often it is tried again
		text := fmt.Sprint(err)
		if err != nil && text != before {
			changed(err)
		}
		before = text
	}
	for {
		select {
		case change, ok := <-s.watcher.Events:
			if !ok {
				return nil
			}
			changed(change)
			if err := s.follow(change, found); err != nil {
				report(err)
			}
		case <-look.C:
			report(s.look(found))
		case err, ok := <-s.watcher.Errors:
			if !ok {
				return nil
			}
			changed(fmt.Errorf("%s: %w", s, err))
		case <-ctx.Done():
			return nil
		}
	}
}

// Feed submits changes until ctx is done; then it closes the source. It is a
// source of pipeline.Feed:
//
//	pipeline.Feed("changes", index, src.Feed)
//
// An error that the system reports, such as fsnotify.ErrEventOverflow, is
// returned: the feed calls Feed again after a pause, and the watch goes on
// meanwhile. After an overflow changes are missing. If each counts, look at all
// files now and then, too. A source that was closed is exhausted.
//
// That a watched path was removed or renamed is an error, too, after the change
// itself. If the path is there again when the feed calls Feed, or was made anew
// at once, as editors do, it is watched again and Feed submits a Create of it;
// changes in between are missing.
func (s *Source) Feed(ctx context.Context, submit func(change notify.Event) error) error {
	if s.gone {
		if err := s.rewatch(submit, s.lacking()); err != nil {
			return errors.Join(err, s.closeAfter(ctx))
		}
	}
	look := time.NewTicker(lookTime)
	defer look.Stop()
	for {
		select {
		case change, ok := <-s.watcher.Events:
			if !ok {
				return nil
			}
			err := submit(change)
			if err == nil {
				err = s.follow(change, submit)
			}
			if err != nil {
				return errors.Join(err, s.closeAfter(ctx))
			}
		case <-look.C:
			if err := s.look(submit); err != nil {
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

// Close ends the watch. It may be called twice. It is not needed for a
// registered source.
func (s *Source) Close() error { return s.watcher.Close() }

// String names the watched paths, for messages.
func (s *Source) String() string { return "fsnotify of " + strings.Join(s.paths, ", ") }
