package letters

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/golda-dev/golda/internal/plain"
	"github.com/golda-dev/golda/stage/reason"
)

// Export writes all letters as lines of JSON, the oldest first, for
// [Store.Import] and for other programs. Letters that arrive meanwhile are left
// out. The stages have the codecs.
func (l *Store) Export(w io.Writer, codecs Codecs) error {
	for _, letter := range l.List(Filter{OldestFirst: true}) {
		text, err := letter.whole(codecs)
		if err == nil {
			_, err = w.Write(append(text, '\n'))
		}
		if err != nil {
			return fmt.Errorf("letter %d: %w", letter.ID, err)
		}
	}
	return nil
}

// whole returns the letter as JSON with its whole command, if its stage has a
// codec for it; else as MarshalJSON does.
func (l Letter) whole(codecs Codecs) ([]byte, error) {
	out := l.line()
	if l.Missing == nil && !inUse(&l.DeadLetter) {
		if c, err := codecs(l.Stage); err != nil || c.write(&out, l.Command) != nil {
			return l.MarshalJSON()
		}
		return json.Marshal(out)
	}
	if l.Missing == nil {
		out.Missing = errStuck.Error()
	}
	return json.Marshal(out)
}

// mostFaults is how many errors of an import are joined.
const mostFaults = 16

// Import puts the letters that [Store.Export] has written into the store, as
// new ones, and returns how many. A line that is no letter of the store, or
// whose command cannot be read, does not hold up the others: the error says
// which lines those are.
func (l *Store) Import(r io.Reader, codecs Codecs) (n int, err error) {
	var errs []error
	faults := 0
	in := bufio.NewReader(r)
	for number := 1; ; number++ {
		text, err := in.ReadBytes('\n')
		if len(bytes.TrimSpace(text)) > 0 {
			fault := l.importLine(text, codecs)
			switch {
			case fault == nil:
				n++
			case faults < mostFaults:
				errs = append(errs, fmt.Errorf("line %d: %w", number, fault))
				fallthrough
			default:
				faults++
			}
		}
		if err == nil {
			continue
		}
		if faults > mostFaults {
			errs = append(errs, fmt.Errorf("and %d more lines", faults-mostFaults))
		}
		if !errors.Is(err, io.EOF) {
			errs = append(errs, err)
		}
		return n, errors.Join(errs...)
	}
}

func (l *Store) importLine(text []byte, codecs Codecs) error {
	var x line
	if err := json.Unmarshal(text, &x); err != nil {
		return err
	}
	if x.Stage == "" || x.Reason == "" {
		return errors.New("it is no letter")
	}
	if of := storeOfReason(x.Reason); of != l.name {
		return fmt.Errorf("a letter with the reason %q belongs to the %s, and not to the %s", x.Reason, of, l.name)
	}
	e := entryOf(&x, codecs)
	if e.missing != nil {
		return fmt.Errorf("letter %d of stage %q: %w", x.ID, plain.Brief(x.Stage, maxKind), e.missing)
	}
	return l.putImported(&e)
}

// ErrClosed reports that a store takes no letters: its file is closed, or not
// open yet.
var ErrClosed = errors.New("pipeline: the file of the letters is not open")

// putImported puts an entry, and reports an error if it cannot be written to
// the file that the store has.
func (l *Store) putImported(e *Entry) error {
	l.mu.Lock()
	shut := l.disk.closed
	l.mu.Unlock()
	if shut {
		return ErrClosed
	}
	if l.parks != nil {
		e.Park = l.parks(&Letter{DeadLetter: e.DeadLetter, Missing: e.missing})
	}
	l.Put(e)
	return nil
}

// storeOfReason returns the name of the store for letters of a reason.
func storeOfReason(why reason.Reason) string {
	switch why {
	case reason.Error:
		return failuresStore
	case reason.Crash:
		return quarantineStore
	default:
		return deadStore
	}
}
