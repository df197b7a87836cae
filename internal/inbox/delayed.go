package inbox

import (
	"container/heap"
	"errors"
	"fmt"
	"time"

	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/line"
)

// delayed holds the commands that wait for a retry, the next one first.
type delayed struct {
	heap []due
	seq  uint64 // keeps those due at the same instant in order
}

type due struct {
	at  int64
	seq uint64
	e   command.Envelope
	p   place
}

func (d *delayed) Len() int { return len(d.heap) }

func (d *delayed) Less(i, j int) bool {
	a, b := d.heap[i], d.heap[j]
	return a.at < b.at || a.at == b.at && a.seq < b.seq
}

func (d *delayed) Swap(i, j int) { d.heap[i], d.heap[j] = d.heap[j], d.heap[i] }

// Push is for package heap.
func (d *delayed) Push(x any) { d.heap = append(d.heap, x.(due)) }

// Pop is for package heap.
func (d *delayed) Pop() any {
	last := d.heap[len(d.heap)-1]
	d.heap[len(d.heap)-1] = due{}
	d.heap = d.heap[:len(d.heap)-1]
	return last
}

// ranks are the ranks of the commands' places.
func (d *delayed) ranks() []line.Rank {
	ranks := make([]line.Rank, len(d.heap))
	for i := range d.heap {
		ranks[i] = d.heap[i].p.rank
	}
	return ranks
}

func (d *delayed) clear() []command.Envelope {
	es := make([]command.Envelope, 0, len(d.heap))
	for len(d.heap) > 0 {
		es = append(es, heap.Pop(d).(due).e)
	}
	return es
}

// ErrRetryBudget says that a command was not tried again because the retry
// budget of its stage was spent.
var ErrRetryBudget = errors.New("stage: retry budget spent")

// OverBudget returns the error of a command whose try ended in err, and for
// which there was no other try in the budget.
func OverBudget(err error) error { return fmt.Errorf("%w: %w", ErrRetryBudget, err) }

const (
	// lookEvery is after which time the inbox looks again.
	lookEvery = 100 * time.Millisecond
	// lookPause is the least time between a look and another one that is made
	// because the inbox is full.
	lookPause = time.Millisecond
	// lookShare and longestPause bound the cost of looks: the pause after a
	// look is lookShare times as long as the look.
	lookShare    = 20
	longestPause = time.Second
)

// lapsing is when the inbox looks for commands that have lapsed.
type lapsing struct {
	watched bool  // the alarm is set, if commands wait that may lapse
	looking bool  // a goroutine looks
	next    int64 // until then a full inbox is no reason to look again
	// lasts is the origin of the last command that was submitted and does not
	// lapse: the next one most often has the same.
	lasts *command.Origin
}
