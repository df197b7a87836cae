package stage

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/golda-dev/golda/internal/engine"
	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/internal/part"
)

// Option sets one property of a stage, which is given once; see [Defaults]. By
// subject:
//
//	workers   [Workers], [Instances], [Blocking], [Passivate], [SnapshotEvery], [KeepStates]
//	queue     [Capacity], [KeyCapacity], [Overflow], [Discipline], [Ordered], [Fair], [Batch], [Linger], [Guard]
//	failures  [Retry], [Restart], [ParkOnFailure]
//	time      [Timeout], [Grace], [TTL], [ExpiresAt], [Rate], [RateBy]; see also [WithDeadline]
//	wiring    [Out], [Middleware]
//
// A pipeline checks the options when it is made of the stage, and returns all
// their faults, such as that one is nil, as [OptionError]s.
type Option func(*settings)

// once is an option of a property that is given once.
func once(name string, set func(*settings)) Option {
	return func(s *settings) {
		if problem := s.options.give(name); problem != "" {
			s.flaw(name, problem)
		}
		set(s)
	}
}

// list is a list of options: the stage's, or one of Defaults inside of it.
type list struct {
	within *list
	at     int            // the place of the option that is applied, counted from one
	given  map[string]int // the places of the options that are given once
	fixed  string         // why the stage sets the options that are applied itself
}

// give notes that an option of a name is applied. It returns a problem if the
// option is in its list already, or in a list around that.
func (l *list) give(name string) (problem string) {
	for of := l; of != nil && problem == ""; of = of.within {
		if first, given := of.given[name]; given && l.fixed != "" {
			problem = fmt.Sprintf("cannot be set, since %s; in stage.Defaults it does not count", l.fixed)
		} else if given {
			problem = fmt.Sprintf("is given twice, by options %d and %d: keep one, or give the first as stage.Defaults", first, of.at)
		}
	}
	if l.given == nil {
		l.given = map[string]int{}
	}
	l.given[name] = l.at
	return problem
}

// fixer is a behaviour that sets options of its stage itself.
type fixer interface {
	Fixed(part.Seal) (why string, opts []Option)
}

// withFixed returns the options, followed by the options that a behaviour sets
// itself, if there are any.
func withFixed(opts []Option, b any) []Option {
	f, ok := b.(fixer)
	if !ok {
		return opts
	}
	why, fixed := f.Fixed(part.Seal{})
	return append(append(slices.Clip(opts), func(s *settings) { s.options.fixed = why }), fixed...)
}

// Defaults is options that later options of the stage may replace, for a list
// that several stages share. Within the list each is given once.
//
//	common := stage.Defaults(stage.Workers(1, 8), stage.Retry(again))
//	fetch := stage.Map("fetch", get, common, stage.Workers(1, 100))
func Defaults(opts ...Option) Option {
	return func(s *settings) {
		s.options = &list{within: s.options}
		for i, o := range opts {
			if s.options.at = i + 1; o == nil {
				s.flaw(fmt.Sprintf("Defaults, option %d", i+1), "is nil")
				continue
			}
			o(s)
		}
		s.options = s.options.within
	}
}

// OptionError is one thing that is wrong with a stage's options.
type OptionError struct {
	Stage   string // the stage's name
	Option  string // the option as it was given
	Problem string // how it is wrong
}

// Error names the stage, the option and the problem.
func (e *OptionError) Error() string {
	return fmt.Sprintf("stage %q: %s: %s", e.Stage, e.Option, e.Problem)
}

// keyCounts counts what a keyed stage has of its keys.
type keyCounts struct {
	instances, states int
	passivated        uint64
}

// settings are a stage's properties: the configuration of its engine, and the
// data that checks of options need.
type settings struct {
	engine engine.Config

	disciplined   bool         // the options have a discipline
	nilDiscipline bool         // and it is nil
	boundsKeys    bool         // the options have a bound for each key
	instances     bool         // the options have a number of instances
	rated         bool         // the options have a rate
	ratedBy       *asked       // nil without RateBy
	fair          *asked       // nil without Fair
	suspends      bool         // handlers may suspend
	expiring      reflect.Type // the parameter of the function of ExpiresAt, nil without the option
	grace         time.Duration
	retry         RetryPolicy
	restart       RestartPolicy
	nilOptions    []int   // which options are nil, counted from one
	options       *list   // the list whose options are being applied
	flaws         []error // faults besides the faults of options
	checks        []func(*checker)

	inbox     *inbox.Inbox
	method    func(cmd any) string // the method of a command; nil if there are no guards
	oneMethod bool                 // all commands have the same

	around, wide []MiddlewareFunc // the stage's, and its pipeline's

	shared, snapshots bool // all workers share the behaviour; the options have SnapshotEvery
	snapshotEvery     int  // commands; 0: one

	keying keying
}

// keying is what the options say of a stage's keys; see [Keyed].
type keying struct {
	on         bool                                        // the stage is keyed
	of         uintptr                                     // the function for the key
	spread     func() (of func(cmd any) uint64, err error) // see engine.Typed.Key; nil if the stage is not keyed
	count      func() keyCounts                            // nil if the stage is not keyed
	passivates bool                                        // the options have Passivate
	idle       time.Duration                               // after which a key's instance is passivated
	most       int                                         // instances
	keeps      bool                                        // the options have KeepStates
	kept       int                                         // states of passivated instances
}
