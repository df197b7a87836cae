// Package fsnotify makes changes of files an event source of a scheduler, or
// the source of a pipeline's feed: pipeline.Feed("changes", index, src.Feed).
//
//	src, err := fsnotify.Watch("/etc/shop")
//	...
//	s.Register(src, func(c coroutine.Context, ev any) {
//		change, ok := ev.(notify.Event)    // of github.com/fsnotify/fsnotify
//		...
//	})
//
// # Ownership
//
// [Watch] takes a watcher of the operating system, which is released when the
// registration of the source ends. So register a source only once, and close
// one that is never registered ([Source.Close]).
//
// # Order and back-pressure
//
// Changes arrive in the order in which the system reports them, from the call
// of Watch on. While the scheduler's backlog is full they collect in the
// system's queue. When that queue overflows, changes are lost, and the event is
// then an error that wraps fsnotify.ErrEventOverflow: check all files again.
//
// # What is watched
//
// Directories, with the files directly in them, or single files. A path that is
// removed or renamed is an error until it is there again; then it is watched
// anew, and its first change is a Create. Changes meanwhile are missing: to
// have each of a file that an editor replaces, watch its directory. What else
// depends on the operating system is described at
// https://pkg.go.dev/github.com/fsnotify/fsnotify.
package fsnotify
