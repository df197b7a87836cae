// Package flight writes the last seconds of the execution trace of the process
// to a file, when a stage stalls or is too slow. See the public package of this
// name below pipeline.
package flight

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/trace"
	"slices"
	"strings"
	"time"

	"github.com/golda-dev/golda/internal/histogram"
	"github.com/golda-dev/golda/pipeline/flight"
)

const (
	defaultAge   = 90 * time.Second
	defaultBytes = 16 << 20
	defaultFiles = 8
	defaultPause = 5 * time.Minute

	// period is how often the stages are compared with their objectives, and
	// fewest how many commands a stage must have handled meanwhile.
	period = 10 * time.Second
	fewest = 100
)

// Window has the last seconds of the trace. It is a [trace.FlightRecorder].
type Window interface {
	Start() error
	Stop()
	WriteTo(to io.Writer) (n int64, err error)
}

// NewWindow makes the window. Tests replace it: in a bubble of package synctest
// the goroutine of a recorder would keep the time from moving.
var NewWindow = func(age time.Duration, bytes int) Window {
	return trace.NewFlightRecorder(trace.FlightRecorderConfig{MinAge: age, MaxBytes: uint64(bytes)})
}

// Times are how long the commands of a stage took.
type Times struct {
	Stage         string
	Wait, Handler histogram.Durations
}

// Recorder is the flight recorder of one run of a pipeline. A nil Recorder
// records nothing.
type Recorder struct {
	set  flight.Options
	log  *slog.Logger
	look func() []Times

	window Window
	why    chan string   // a reason to write a trace
	stop   chan struct{} // closed by Stop
	over   chan struct{} // closed when run has returned
	last   []Times
	next   time.Time // when the next trace may be written
}

// New returns a recorder with options that are checked. Look returns the times
// of all stages since they were made.
func New(set flight.Options, log *slog.Logger, look func() []Times) *Recorder {
	set.Age = cmp.Or(set.Age, defaultAge)
	set.Bytes = cmp.Or(set.Bytes, defaultBytes)
	set.Files = cmp.Or(set.Files, defaultFiles)
	set.Pause = cmp.Or(set.Pause, defaultPause)
	return &Recorder{set: set, log: log, look: look, why: make(chan string, 1)}
}

// Start begins to record. After an error the recorder does not run, and Stop does
// nothing.
func (r *Recorder) Start() error {
	if r == nil {
		return nil
	}
	if err := os.MkdirAll(r.set.Dir, 0o755); err != nil { //nolint:gosec // as the umask says
		return fmt.Errorf("flight recorder: %w", err)
	}
	r.window = NewWindow(r.set.Age, r.set.Bytes)
	if err := r.window.Start(); err != nil { // that there is another one is the only reason
		r.window = nil
		return fmt.Errorf("flight recorder: %w: %w", flight.ErrTaken, err)
	}
	r.stop, r.over = make(chan struct{}), make(chan struct{})
	go r.run()
	return nil
}

// Stop ends the recording, and waits until a trace that is being written is
// complete. It may be called if Start was not, or has failed.
func (r *Recorder) Stop() {
	if r == nil || r.window == nil {
		return
	}
	close(r.stop)
	<-r.over
	r.window.Stop()
	r.window = nil
}

// Stalled has a trace written, because stages have stalled. It does not wait.
func (r *Recorder) Stalled(stages []string) {
	select {
	case r.why <- "stalled: " + strings.Join(stages, ", "):
	default: // a trace is about to be written
	}
}

// run writes the traces, until Stop.
func (r *Recorder) run() {
	defer close(r.over)
	var due <-chan time.Time // never, without objectives
	if len(r.set.Within) > 0 {
		ticker := time.NewTicker(period)
		defer ticker.Stop()
		due = ticker.C
		r.last = r.look()
	}
	for {
		select {
		case <-r.stop:
			return
		case why := <-r.why:
			r.write(why)
		case <-due:
			if why := r.missed(); why != "" {
				r.write(why)
			}
		}
	}
}

// missed returns which stages have missed their objectives since the last call;
// nothing if none has.
func (r *Recorder) missed() string {
	before := r.last
	r.last = r.look()
	var late []string
	for _, now := range r.last {
		within, has := r.set.Within[now.Stage]
		at := slices.IndexFunc(before, func(t Times) bool { return t.Stage == now.Stage })
		if !has || at < 0 {
			continue
		}
		wait, handler := now.Wait.Since(before[at].Wait), now.Handler.Since(before[at].Handler)
		if took := wait.Quantile(0.99) + handler.Quantile(0.99); took > within && handler.Count >= fewest {
			late = append(late, fmt.Sprintf("%s takes %v, and its objective is %v", now.Stage, took, within))
		}
	}
	return strings.Join(late, "; ")
}

// write writes a trace, unless the last one is too recent.
func (r *Recorder) write(why string) {
	now := time.Now()
	if now.Before(r.next) {
		return
	}
	r.next = now.Add(r.set.Pause)
	file := filepath.Join(r.set.Dir, fmt.Sprintf("flight-%s-%d.trace", now.UTC().Format("20060102T150405.000"), os.Getpid()))
	n, err := r.save(file)
	if err != nil {
		r.log.Error("flight recorder: no trace was written", "file", file, "why", why, "reason", err)
		return
	}
	r.log.Warn("flight recorder: the last seconds were written, for go tool trace", "file", file, "why", why, "bytes", n)
}

// save writes the window to a file, which is complete or not there, and deletes
// the oldest files.
func (r *Recorder) save(file string) (n int64, err error) {
	f, err := os.CreateTemp(r.set.Dir, "flight-*.part")
	if err != nil {
		return 0, err
	}
	n, err = r.window.WriteTo(f)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		return 0, errors.Join(err, os.Remove(f.Name()))
	}
	return n, r.forget()
}

// forget deletes the oldest files, if there are too many.
func (r *Recorder) forget() error {
	files, err := filepath.Glob(filepath.Join(glob(r.set.Dir), "flight-*.trace"))
	slices.Sort(files)
	for _, old := range files[:max(len(files)-r.set.Files, 0)] {
		err = errors.Join(err, os.Remove(old))
	}
	return err
}

// glob returns a pattern that matches only the directory.
func glob(dir string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(dir)
}
