package queue_test

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/golda-dev/golda/stage/queue"
)

// mail is a command that knows its priority and its deadline.
type mail struct {
	text    string
	urgency int
	by      time.Time
}

func (m mail) Priority() int       { return m.urgency }
func (m mail) Deadline() time.Time { return m.by }
func (m mail) String() string      { return m.text }

// fill makes a line as a stage does: it gets the key once, then pushes the command.
func fill(d queue.Discipline, cmds ...any) *queue.Line[any] {
	line := queue.New[any](d)
	for _, cmd := range cmds {
		var key queue.Key
		if k, ok := d.(queue.Keyed); ok {
			key = k.Key(cmd)
		}
		line.Push(cmd, key)
	}
	return line
}

func ExampleFIFO() {
	fmt.Println(fill(queue.FIFO{}, "first", "second", "third").Drain()...)
	// Output: first second third
}

func ExampleLIFO() {
	fmt.Println(fill(queue.LIFO{}, "first", "second", "third").Drain()...)
	// Output: third second first
}

// Five wait where three are the threshold: the newest go first until three are left.
func ExampleAdaptiveLIFO() {
	fmt.Println(fill(queue.AdaptiveLIFO{Above: 3}, "a", "b", "c", "d", "e").Drain()...)
	// Output: e d a b c
}

// Of two commands with equal priority the older one goes first. A command without a priority has 0.
func ExamplePriority() {
	line := fill(queue.Priority{},
		mail{text: "newsletter", urgency: -1},
		"a string",
		mail{text: "invoice", urgency: 5},
		mail{text: "alarm", urgency: 9},
		mail{text: "reminder", urgency: 5},
	)
	fmt.Println(line.Drain()...)
	// Output: alarm invoice reminder a string newsletter
}

// Strings have no methods, so a function returns their priority.
func ExamplePriorityOf() {
	loud := queue.PriorityOf(func(s string) int { return strings.Count(s, "!") })
	fmt.Println(fill(loud, "hm", "help!!", "hey!").Drain()...)
	// Output: help!! hey! hm
}

// A command without a deadline comes last.
func ExampleDeadline() {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	line := fill(queue.Deadline{},
		mail{text: "whenever"},
		mail{text: "by one", by: noon.Add(time.Hour)},
		mail{text: "by noon", by: noon},
	)
	fmt.Println(line.Drain()...)
	// Output: by noon by one whenever
}

func ExampleDeadlineOf() {
	midnight := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	shortest := queue.DeadlineOf(midnight.Add)
	fmt.Println(fill(shortest, 3*time.Second, time.Minute, time.Second).Drain()...)
	// Output: 1s 3s 1m0s
}

// A discipline is found by its name, from a flag or a configuration file.
func ExampleByName() {
	d, err := queue.ByName("lifo-adaptive")
	fmt.Println(d.Name(), err)
	_, err = queue.ByName("random")
	var unknown *queue.UnknownError
	fmt.Println(errors.As(err, &unknown), unknown.Name)
	// Output:
	// lifo-adaptive <nil>
	// true random
}

// A worker took three commands, completed one and crashed: the other two come first again, even before a more important
// one.
func ExampleLine_PushFront() {
	line := fill(queue.Priority{}, "a", "b", "c", "d")
	batch := make([]any, 3)
	line.PopInto(batch)
	line.Push("urgent", -1)
	line.PushFront(batch[1:])
	fmt.Println(line.Drain()...)
	// Output: b c urgent d
}

// A full stage that drops the oldest drops the command that has waited for longest, whatever comes out next.
func ExampleLine_Drop() {
	line := fill(queue.LIFO{}, "a", "b", "c")
	fmt.Println(line.Drop())
	fmt.Println(line.Drain()...)
	// Output:
	// a
	// c b
}

// During an overload the stage reverses its backlog.
func ExampleLine_Switch() {
	line := fill(queue.FIFO{}, "a", "b", "c")
	line.Switch(queue.LIFO{}, nil)
	line.Push("d", 0)
	fmt.Println(line.Drain()...)
	// Output: d c b a
}

// One of every three is the letter that has waited for longest.
func ExamplePriority_Every() {
	line := fill(queue.Priority{}.Every(3), mail{text: "old"}, mail{text: "older news"},
		mail{text: "fire", urgency: 2}, mail{text: "flood", urgency: 2}, mail{text: "storm", urgency: 2}, mail{text: "hail", urgency: 2})
	fmt.Println(line.Drain()...)
	// Output: fire flood old storm hail older news
}
