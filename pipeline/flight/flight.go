// Package flight has the options of pipeline.Flight: a flight recorder, which
// keeps the last seconds of the execution trace of the process in memory, and
// writes them to a file when something is wrong.
//
//	p, err := pipeline.New("shop", take, ship, pipeline.Flight(flight.Options{
//		Dir:    "/var/tmp/shop",
//		Within: map[string]time.Duration{"ship": 200 * time.Millisecond},
//	}))
//
// A file is what package runtime/trace writes, for go tool trace: which
// goroutine ran when, and what it waited for, with a region for each batch of a
// stage. See docs/traces.md.
package flight

import (
	"errors"
	"time"
)

// ErrTaken refuses to start a pipeline: the process has a flight recorder
// already, and the runtime allows one. It may be that of another pipeline, or
// of the program itself.
var ErrTaken = errors.New("the process has a flight recorder already")

// Options say when a trace is written, and where. The zero value of a field
// but Dir is its default.
//
// A trace is written when a stall is reported in the log, and when a stage
// misses its objective: see Within. The log has a line with the name of the
// file. While the pipeline runs, the recorder costs as much as any execution
// trace, a few percent of the CPU time, and about twice Bytes of memory.
type Options struct {
	// Dir is the directory of the files, which is made if it is not there. The
	// names begin with "flight-" and the time, in UTC, and end with ".trace".
	Dir string
	// Within has the objectives: of a stage by its name, how long 99 of 100 of
	// its commands may take, from when they enter its queue until they have been
	// handled. Every ten seconds the commands of the last ten seconds count, if
	// there were at least a hundred. The objective is missed if the 99th
	// percentiles of the wait and of the time in the handler add up to more.
	Within map[string]time.Duration
	// Age is how far back a trace reaches, if Bytes allow it. The default is 90
	// seconds, because a stall is reported when it has lasted for a minute.
	Age time.Duration
	// Bytes is how large a trace is, about: the runtime keeps whole parts of a
	// trace, of a second or so each. The default is 16 MiB.
	Bytes int
	// Files is how many files are kept in Dir: further ones replace the oldest.
	// The default is 8.
	Files int
	// Pause is the shortest time between two traces. The default is five
	// minutes.
	Pause time.Duration
}
