// Package fsnotify makes changes of files an event source of a scheduler, or the source of a pipeline's feed:
// pipeline.Feed("changes", index, src.Feed).
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
// [Watch] takes a watcher of the operating system, which is released when the registration of the source ends. So
// register a source only once, and close one that is never registered ([Source.Close]).
//
// # Order and back-pressure
//
// Changes arrive in the order in which the system reports them, from the call of Watch on. While the scheduler's
// backlog is full they collect in the system's queue. When that queue overflows, changes are lost, and the event is
// then an error that wraps fsnotify.ErrEventOverflow: check all files again.
//
// # What is watched
//
// Directories, with the files directly in them, or single files. When an editor replaces a file, the old file is gone,
// and so is its watch; watch its directory instead. What else depends on the operating system is described at
// https://pkg.go.dev/github.com/fsnotify/fsnotify.
package fsnotify
