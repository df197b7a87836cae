package stage

import (
	"fmt"
	"reflect"
	"time"

	"github.com/golda-dev/golda/internal/engine"
	"github.com/golda-dev/golda/internal/inbox"
)

// Option sets one property of a stage. If two options set the same property, the later one counts. By what they are
// about:
//
//	workers   [Workers], [Instances], [Blocking], [Passivate], [SnapshotEvery], [KeepStates]
//	queue     [Capacity], [Overflow], [Discipline], [Ordered], [Batch], [Linger], [Guard], [RequestGuard]
//	failures  [Retry], [Restart]
//	time      [Timeout], [Grace], [TTL], [ExpiresAt], [Rate], [RateBy]; see also [WithDeadline]
//	wiring    [Out], [Use]
//
// A pipeline checks the options when it is made of the stage, and returns everything that is wrong with any of them, such
// as that one is nil, as [Fault]s.
type Option func(*settings)

// Fault is one thing that is wrong with a stage's options.
type Fault struct {
	Stage   string // the stage's name
	Option  string // the option as it was given
	Problem string // what is wrong with it
}

// Error names the stage, the option and the problem.
func (f *Fault) Error() string {
	return fmt.Sprintf("stage %q: %s: %s", f.Stage, f.Option, f.Problem)
}

// keyCounts counts what a keyed stage has of its keys.
type keyCounts struct {
	instances, states int
	passivated        uint64
}

// settings are a stage's properties: what its engine reads, and what is needed to check the options.
type settings struct {
	engine.Config

	disciplined   bool         // the options have a discipline
	nilDiscipline bool         // and it is nil
	instances     bool         // the options have a number of instances
	rated         bool         // the options have a rate
	ratedBy       *ratedBy     // nil without RateBy
	suspends      bool         // handlers may suspend
	expiring      reflect.Type // the parameter of the function of ExpiresAt, nil without the option
	grace         time.Duration
	retry         RetryPolicy
	restart       RestartPolicy
	nilOptions    []int   // which options are nil, counted from one
	flaws         []error // faults beyond those of the options
	checks        []func(*checker)

	inbox     *inbox.Inbox
	method    func(cmd any) string // the method of a command; nil if there are no guards
	oneMethod bool                 // all commands have the same

	around, wide []Middleware // the stage's, and its pipeline's

	shared, snapshots bool // all workers share the behaviour; the options have SnapshotEvery
	snapshotEvery     int  // commands; 0: one

	keyed, passivates bool                                        // see Keyed and Passivate
	key               uintptr                                     // the function for the key of a keyed stage
	spread            func() (of func(cmd any) uint64, err error) // see engine.Typed.Key; nil if the stage is not keyed
	idle              time.Duration                               // after which a key's instance is passivated
	mostKeys          int
	keeps             bool             // the options have KeepStates
	states            int              // of passivated instances
	keys              func() keyCounts // nil if the stage is not keyed
}

// ratedBy is the key of [RateBy].
type ratedBy struct {
	takes reflect.Type
	key   uintptr // the function, 0 if it is nil
	ask   func(cmd any)
}
