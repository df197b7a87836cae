package letters

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/reason"
)

// Bound is how much a store keeps.
type Bound struct {
	Letters int
	Bytes   int64 // of their commands, about
}

// unit is how many bytes of the bound belong to a letter. One letter more than
// the bound can be in the store for a moment.
func (b Bound) unit() int64 { return max(1, b.Bytes/int64(b.Letters+1)) }

// Measure returns about how many bytes of memory a command of a stage takes,
// and false if the user has not said how to find out. It calls user code.
type Measure func(stage string, cmd any) (bytes int, ok bool)

// Store is a store of letters that is bounded in letters and in bytes. When it
// is full, the oldest letter of the group that takes the most of it is evicted
// for a new one, so that a flood of one cause leaves the letters of other
// causes in the store. Evictions are counted and logged. Any goroutine may use
// the store.
//
// A store may have a file, see [Store.open]: then its letters outlive the
// process.
type Store struct {
	name   string
	bound  Bound
	sizes  Measure // nil: the user has not said how large commands are; set before the first letter is put
	log    *slog.Logger
	submit Submit
	parks  Parks // nil: no letter of a file, or that is imported, parks a key; set before there are any
	disk   disk

	unparked func(stage string, keys uint64) // notes that keys go on since their letters were evicted; nil: it is not noted

	mu         sync.Mutex // guards all below
	slots      []slot     // as many as are in use, or were at once
	free       []int      // slots that are not in use
	groups     map[groupKey]*group
	last       *group        // of the last letter: the letters of a flood have one group
	largest    bySize        // groups that have letters
	bytes      int64         // of all letters
	released   []*inbox.Park // of letters that have left, to be ended without the lock
	ids        uint64
	dropped    uint64
	unreported loss      // losses that were not logged yet
	reported   time.Time // when losses were last logged
	said       uint64    // how many letters had been dropped then, if the store has a file
}

// loss counts the losses that a bound has caused.
type loss struct {
	dropped  uint64 // letters
	cut      uint64 // commands that were larger than the store
	unparked uint64 // letters of dropped that had parked a key
	stage    string // of the last of these
}

// NewStore returns a store with a bound. Its name is for the log.
func NewStore(name string, bound Bound, log *slog.Logger, submit Submit) *Store {
	return &Store{name: name, bound: bound, log: log, submit: submit, groups: map[groupKey]*group{}}
}

// Submit submits a command to the stage of that name again. If its letter parks
// its key, it comes before all others of the key. If ended is not nil, it is
// called when the command has ended with all that was emitted on its way, with
// its error.
type Submit func(ctx context.Context, stage string, cmd any, park *inbox.Park, ended func(error)) error

// Parks parks the key of the command of a letter that a file has, or that was
// imported, and returns the hold; nil if the stage parks no keys. It calls user
// code.
type Parks func(*Letter) *inbox.Park

// slot has a letter; its id is 0 if it is not in use.
type slot struct {
	id           uint64
	dead         stage.DeadLetter
	version      string
	group        *group
	older, newer int // neighbours in the group, by slot; none if there is none
	claim        *claim
	missing      error       // why there is no command
	park         *inbox.Park // nil: the letter parks no key
	size         int64       // of the command, about
	heard        bool        // the source of the command deals with its end
	where        extent      // in the file; n is 0 if it is not there
	awaits       link.Use    // the return of the handler, with which the command is written; nil if nothing awaits it
	unwritten    []byte      // the record, if it could not be written to the file
}

const none = -1

// groupKey has the common properties of the letters of a group.
type groupKey struct {
	stage       string
	reason      reason.Reason
	fingerprint string
}

// group has the letters of one key, linked through their slots, and counts all
// letters that were ever seen.
type group struct {
	key            groupKey
	seen           uint64
	first, last    time.Time
	oldest, newest int // slots; none if there is none
	kept           int
	bytes          int64  // of the letters
	weight         int64  // the larger of the shares in the two bounds of the store, as bytes
	oldestID       uint64 // the id of the oldest letter
	index          int    // in the heap; none if the group has no letters
}

// bySize is a heap of groups: the group that takes most of the store is first,
// and among equal groups the group with the oldest letter.
type bySize []*group

func (s *bySize) Len() int { return len(*s) }

func (s *bySize) Less(i, j int) bool {
	a, b := (*s)[i], (*s)[j]
	return a.weight > b.weight || a.weight == b.weight && a.oldestID < b.oldestID
}

func (s *bySize) Swap(i, j int) {
	g := *s
	g[i], g[j] = g[j], g[i]
	g[i].index, g[j].index = i, j
}

// Push is for package heap.
func (s *bySize) Push(x any) {
	g := x.(*group)
	g.index = len(*s)
	*s = append(*s, g)
}

// Pop is for package heap.
func (s *bySize) Pop() any {
	n := len(*s) - 1
	g := (*s)[n]
	(*s)[n] = nil
	*s = (*s)[:n]
	g.index = none
	return g
}
