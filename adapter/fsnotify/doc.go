// Package fsnotify makes changes of files an event source of a scheduler.
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
// [Watch] takes a watcher of the system, which the registration of the source gives back when it
// ends. So a source is registered once, and one that is not registered is closed ([Source.Close]).
//
// # Order and back-pressure
//
// Changes come in the order in which the system tells them, from the call of Watch on. While the
// scheduler's backlog is full they pile up in the system's queue; what that has no room for is
// lost, and the event is then an error that wraps fsnotify.ErrEventOverflow: look at all files again.
//
// # What is watched
//
// Directories, with the files directly in them, or single files. A file that an editor replaces
// is gone, and so is its watch; watch its directory. What else depends on the system is told at
// https://pkg.go.dev/github.com/fsnotify/fsnotify.
package fsnotify
