package letters

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/golda-dev/golda/internal/inbox"
)

// disk is a store's access to its file. The zero disk has none. The lock of the
// store guards the fields from file on.
type disk struct {
	codecs   Codecs // nil if the store has no file; set before the first letter is put
	log      *slog.Logger
	pipeline string
	file     *file             // nil before it is opened, and when it is closed
	retried  map[uint64]*claim // letters that are in the file only, by ID: their retries have not ended
	problem  error             // to be logged
	reported time.Time         // when a problem was last logged
	closed   bool
}

// format is the version of the format of the files.
const format = 1

// record is a record of a file: the head, which is first, a letter, or the ID
// of a letter that is gone.
type record struct {
	Head *head  `json:"head,omitempty"`
	Put  *put   `json:"put,omitempty"`
	Gone uint64 `json:"gone,omitempty"`
}

// head is the first record of a file. It describes the file.
type head struct {
	Format   int    `json:"format"`
	Pipeline string `json:"pipeline"`
	Store    string `json:"store"`
	Last     uint64 `json:"last"` // the ID of the last letter
}

// put is a letter, with the store's additions.
type put struct {
	ID     uint64    `json:"id"`
	Seen   uint64    `json:"seen"`
	First  time.Time `json:"first"`
	Letter *line     `json:"letter"`
}

// lineOfPut returns the record of a letter, whose body is JSON already.
func lineOfPut(id, seen uint64, first time.Time, body []byte) []byte {
	text := first.Format(time.RFC3339Nano)
	return lineOfRecord(fmt.Appendf(nil, `{"put":{"id":%d,"seen":%d,"first":%q,"letter":%s}}`, id, seen, text, body))
}

func lineOfGone(id uint64) []byte { return lineOfRecord(fmt.Appendf(nil, `{"gone":%d}`, id)) }

// errLate is why a letter is not in the file.
var errLate = errors.New("the pipeline has stopped")

// encode returns the body of a letter for the file.
func (d *disk) encode(e *Entry) (body []byte) {
	l := Letter{DeadLetter: e.DeadLetter, Version: e.Version, Fingerprint: e.Fingerprint, Missing: e.missing}.line()
	if e.missing == nil {
		if err := d.encodeCommand(&l, e); err != nil {
			d.log.Error("a letter is stored without its command", "stage", e.Stage, "command", l.Type, "reason", err)
		}
	}
	body, err := json.Marshal(l)
	if err != nil {
		d.log.Error("a letter is not stored", "stage", e.Stage, "command", l.Type, "reason", err)
	}
	return body
}

func (d *disk) encodeCommand(l *line, e *Entry) error {
	c, err := d.codecs(e.Stage)
	switch {
	case err != nil:
	case e.use != nil && !e.use.Returned():
		err, e.awaits = errStuck, e.use
	case inUse(&e.DeadLetter):
		err = errStuck
		if h, known := hangOf(&e.DeadLetter); known {
			e.awaits = h
		}
	default:
		return c.write(l, e.Command)
	}
	l.Missing = err.Error()
	return err
}

// problemLocked returns the problem to log now: none, if one was logged within
// a second.
func (d *disk) problemLocked(now time.Time) error {
	err := d.problem
	if err == nil || !d.reported.IsZero() && now.Sub(d.reported) < time.Second {
		return nil
	}
	d.reported, d.problem = now, nil
	return err
}

func (d *disk) report(store string, problem error) {
	if problem != nil {
		d.log.Error("letters are not written to their file: they are lost if the process ends", "store", store, "reason", problem)
	}
}

// claim is the right to retry a letter.
type claim struct {
	stage   string      // of the letter
	filed   bool        // the letter was in the file when the retry began; not changed
	evicted bool        // the letter was evicted meanwhile
	ended   bool        // the retry has ended
	park    *inbox.Park // of the letter, if it has left the store meanwhile
	where   extent      // of the letter in the file, while the retry has not ended
}
