package event

import (
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/stage"
)

const (
	defaultHeld = 10_000
	mostHeld    = 1 << 24
	defaultIdle = time.Minute
	// leastTime is less than any window needs: a time below it has no unit.
	leastTime = time.Microsecond
	// mostTime is the longest time, so that ends are times, too.
	mostTime = 20 * 365 * 24 * time.Hour
	// mostWindows is in how many windows a command may be.
	mostWindows = 1000
)

// faults are the mistakes in the arguments of a constructor. The name of the
// stage is added later.
type faults []error

func (f *faults) add(option, problem string) {
	*f = append(*f, &stage.OptionError{Option: option, Problem: problem})
}

func (f *faults) that(ok bool, option, problem string) {
	if !ok {
		f.add(option, problem)
	}
}

// check returns the mistakes.
func check[K comparable, C, A any](of form[A], fold Fold[K, C, A], m Watermark[C]) (f faults) {
	f.that(fold.at != nil, "event.Sum", "the function for the time is nil")
	f.that(fold.key != nil, "event.Sum", "the function for the key is nil")
	f.that(fold.add != nil, "event.Sum", "the function that adds is nil")
	checkForm(&f, of.name, of.session, time.Duration(of.length), time.Duration(of.every))
	f.that(!of.session || of.merge != nil, "event.Session", "the function that merges is nil")
	f.that(!m.ByKey || m.Source == nil, "Watermark.Source", "is given with ByKey: a watermark is of a source or of a key")
	f.that(m.Dropped == nil || m.Late == nil, "Watermark.Dropped", "is given with Late: late commands go there or are dropped")
	f.time("Disorder", m.Disorder)
	f.time("Idle", m.Idle)
	f.time("Lateness", m.Lateness)
	option := fmt.Sprintf("Watermark.Held(%d)", m.Held)
	f.that(m.Held >= 0, option, "must not be negative")
	f.that(m.Held <= mostHeld, option, fmt.Sprintf("must be at most %d", mostHeld))
	return f
}

func checkForm(f *faults, name string, session bool, length, every time.Duration) {
	option := fmt.Sprintf("event.%s(%v)", name, length)
	if name == "Sliding" {
		option = fmt.Sprintf("event.Sliding(%v, %v)", length, every)
		f.that(every >= leastTime && every < length, option, "the second time must be above 0 and less than the first")
		f.that(every <= 0 || length/every <= mostWindows, option, fmt.Sprintf("a command would be in more than %d windows", mostWindows))
	}
	f.that(length >= leastTime, option, fmt.Sprintf("must be at least %v: perhaps its unit is missing", leastTime))
	f.that(length <= mostTime, option, fmt.Sprintf("must be at most %v", mostTime))
}

// time finds a time that is negative, has no unit, or is too long.
func (f *faults) time(of string, d time.Duration) {
	option := fmt.Sprintf("Watermark.%s(%v)", of, d)
	f.that(d >= 0, option, "must not be negative")
	f.that(d <= 0 || d >= leastTime, option, fmt.Sprintf("must be at least %v: perhaps its unit is missing", leastTime))
	f.that(d <= mostTime, option, fmt.Sprintf("must be at most %v", mostTime))
}

// connect connects a port to a target, which may be a nil pointer.
func connect[C any](late *behaviour.Port[C], to behaviour.Target[C]) error {
	if v := reflect.ValueOf(to); v.Kind() == reflect.Pointer && v.IsNil() {
		return errors.New("is nil")
	}
	return late.Connect(to)
}
