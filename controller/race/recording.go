package race

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

// Recording is what a pipeline did: when commands arrived from outside, since
// the start of the recording and in order, and how long the handlers of each
// stage took, in the order of their ends. The zero Recording is empty.
type Recording struct {
	Arrivals []time.Duration
	Services map[string][]time.Duration

	// entries are the arrivals by the stage where they come in, in place of
	// Arrivals; lasted is how long the recording lasted, and computes which
	// share of their times the handlers of a stage compute, if that is known.
	entries  map[string][]time.Duration
	lasted   time.Duration
	computes map[string]float64
}

// format is the first line of a file.
const format = `{"golda recording":1}`

// entry is another line of a file: an arrival, or the time that a handler of a
// stage took, in nanoseconds.
type entry struct {
	At    *int64 `json:"at,omitempty"`
	Stage string `json:"stage,omitempty"`
	Took  *int64 `json:"took,omitempty"`
}

// mostLine is how long a line may be.
const mostLine = 1 << 16

// longest is how long a recording, and a handler, may last: as in a model of
// package simulator.
const longest = 21 * 24 * time.Hour

// ReadFrom replaces the recording by what a [Recorder] has written to a file,
// and returns how many bytes it has read. A last line that was not written to
// its end, as when the program was killed, is left out. ReadFrom returns an
// error that names the line for anything else that is no recording; the
// recording is empty then.
func (r *Recording) ReadFrom(from io.Reader) (n int64, err error) {
	*r = Recording{Services: map[string][]time.Duration{}}
	if n, err = r.read(bufio.NewReaderSize(from, mostLine)); err != nil {
		*r = Recording{}
	}
	return n, err
}

func (r *Recording) read(lines *bufio.Reader) (read int64, err error) {
	first, err := lines.ReadSlice('\n')
	read += int64(len(first))
	if err != nil || string(first) != format+"\n" {
		return read, errors.New("race: the file is no recording: its first line is not " + format)
	}
	for n := 2; ; n++ {
		line, err := lines.ReadSlice('\n')
		read += int64(len(line))
		switch {
		case errors.Is(err, io.EOF):
			return read, nil
		case err != nil:
			return read, fmt.Errorf("race: line %d: %w", n, err)
		}
		var e entry
		if err := json.Unmarshal(line, &e); err != nil {
			return read, fmt.Errorf("race: line %d: %w", n, err)
		}
		if err := r.add(e); err != nil {
			return read, fmt.Errorf("race: line %d: %w", n, err)
		}
	}
}

// add adds a line.
func (r *Recording) add(e entry) error {
	switch {
	case (e.At == nil) == (e.Took == nil) || e.Took != nil && e.Stage == "":
		return errors.New("it is neither an arrival nor the time of a stage")
	case e.At != nil:
		at := time.Duration(*e.At)
		if at < 0 || at > longest || len(r.Arrivals) > 0 && at < r.Arrivals[len(r.Arrivals)-1] {
			return fmt.Errorf("an arrival at %v, out of order or later than %v", at, longest)
		}
		r.Arrivals = append(r.Arrivals, at)
	default:
		took := time.Duration(*e.Took)
		if took < 0 || took > longest {
			return fmt.Errorf("a handler took %v", took)
		}
		r.Services[e.Stage] = append(r.Services[e.Stage], took)
	}
	return nil
}

// Recorder writes a recording of a pipeline that runs. A program calls Arrived
// where it submits a command, and Took where a handler ends, for example in a
// middleware of stage.Use. Without a Recorder nothing is measured, so recording
// costs nothing when it is off. Any goroutine may call the methods; they hold
// one lock for the time of a write to a buffer.
type Recorder struct {
	mu    sync.Mutex // guards the rest
	to    *bufio.Writer
	start time.Time
	err   error
}

// NewRecorder returns a recorder that writes to a file, or the like, from now
// on.
func NewRecorder(to io.Writer) *Recorder {
	r := &Recorder{to: bufio.NewWriter(to), start: time.Now()}
	_, r.err = r.to.WriteString(format + "\n")
	return r
}

// Arrived records that a command arrives from outside now.
func (r *Recorder) Arrived() {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := int64(time.Since(r.start))
	r.write(entry{At: &at})
}

// Took records how long a handler of a stage took.
func (r *Recorder) Took(stage string, d time.Duration) {
	took := int64(d)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.write(entry{Stage: stage, Took: &took})
}

func (r *Recorder) write(e entry) {
	line, err := json.Marshal(e)
	if err == nil && r.err == nil {
		_, err = r.to.Write(append(line, '\n'))
	}
	if r.err == nil {
		r.err = err
	}
}

// Flush writes the buffer, and returns the first error of any write. The
// recorder may be used afterwards.
func (r *Recorder) Flush() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = r.to.Flush()
	}
	return r.err
}

// length is how long the recording lasted.
func (r *Recording) length() time.Duration {
	if r.lasted > 0 || len(r.Arrivals) == 0 {
		return r.lasted
	}
	return slices.Max(r.Arrivals) + 1
}

// arrivals returns when commands arrive at a stage.
func (r *Recording) arrivals(stage string) []time.Duration {
	if r.entries != nil {
		return r.entries[stage]
	}
	return r.Arrivals
}
