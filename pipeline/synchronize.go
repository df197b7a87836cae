package pipeline

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/golda-dev/golda/coordination/synchronizer"
	"github.com/golda-dev/golda/internal/engine"
	"github.com/golda-dev/golda/internal/part"
	"github.com/golda-dev/golda/internal/rules"
	"github.com/golda-dev/golda/internal/synchronize"
)

// Synchronize adds a synchronizer: rules over commands of several stages that are written outside the code of the stages. Two stages that
// share a printer:
//
//	pipeline.Synchronize("printer", func(s *synchronizer.Synchronizer) {
//		s.AtMost(1, synchronizer.Event{Of: invoices, Method: "Invoice"}, synchronizer.Event{Of: labels, Method: "Label"})
//	})
//
// New calls init once, which adds the rules; see package synchronizer. If init panics, New returns an error that names the synchronizer.
// The members are stages that are given to the same New, and need no option. The method of a command is what its Method() string returns,
// or the name of its type, as for [stage.Guard]: an error of New says if a stage cannot have commands of a method. Commands that no rule
// names are not held back.
//
// A command is held back as by a guard of its stage: it waits in the queue, holds a slot and no worker, and is in flight. It is given
// out when all guards of the stage and all synchronizers allow it at the same time; to give it out, to count it and to run the triggers
// is one step. It is current until its handler has ended, also by a crash, or has been given up; each try counts by itself, so a command of
// an atomic rule that is tried again waits for further commands of the other stages; and one that ends without its handler being called is
// completed, too. Synchronizers compose, with one exception: New refuses constraints and atomic rules of the
// same method.
//
// Of several stages that wait for the same synchronizer, the one that has waited for longest and has an idle worker is the next; to a
// stage of a [Group], any idle worker of the group counts. The commands of an atomic rule are given out together: each is the next one of
// its stage, even if the stage is paused at that moment, and waits for a worker if all are at work.
//
// A stage with [stage.Keyed], [stage.Ordered], [stage.Discipline], [stage.RateBy] or [stage.Linger] cannot be a member, since it has an
// order of its own. A member gives one command at a time to a worker.
//
// A stage that is paused, disabled, drained, upgraded or restarted stays a member, and its counters go on. Its held commands hold back
// no others, but OncePerRound waits for its turn, and an atomic rule for its command: a drain waits for them, too. When a stage is removed
// ([Pipeline.Remove]) its counters become zero and the functions of OnTerminated are called. From then on it takes no part in OncePerRound,
// and its atomic rules are void: commands of the others run by themselves. A stage that is added later is no member, even under a name that
// a rule names.
//
// Constraints are evaluated again when a method that their synchronizer names or has counted is accepted or has ended. A rule can count all
// methods of stages that any rule names. [stage.Stage.CheckGuards] is for what changes otherwise.
//
// The functions of the rules are called while queues are locked, by any goroutine, one at a time for all synchronizers of the pipeline.
// They must be quick, and call nothing of the pipeline, nor runtime.Goexit. If one panics, the command that it was called for crashes in
// the place of its handler, or at its end if the trigger was for [synchronizer.Completed]; other commands go on.
//
// Snapshot.Methods of a stage says for how long its commands waited, for which rule, and beside which methods of other stages.
func Synchronize(name string, init func(s *synchronizer.Synchronizer)) Part {
	return synchronization{name, init}
}

// synchronization is a part that is a synchronizer.
type synchronization struct {
	name string
	init func(s *synchronizer.Synchronizer)
}

// Part makes a synchronizer a part of a pipeline.
func (synchronization) Part(part.Seal) {}

// synchronizers are those of a pipeline. They do not change.
type synchronizers struct {
	board *synchronize.Board // nil: there are none
	rules []*rules.Rules
}

// coordination checks synchronizers.
type coordination struct {
	stages []*engine.Core // of the pipeline
	faultf func(part, format string, args ...any)
}

// rulesOf returns the rules of the synchronizers. It finds those that the stages cannot follow.
func (p coordination) rulesOf(all []synchronization) (found []*rules.Rules) {
	names, checked, atomic := map[string]bool{}, map[rules.Method]string{}, map[rules.Method]string{}
	for _, s := range all {
		part := fmt.Sprintf("Synchronize(%q)", s.name)
		r, err := s.evaluate()
		for _, fault := range faultsOf(err) {
			p.faultf(part, "%s", strings.TrimPrefix(fault.Error(), fmt.Sprintf("synchronizer %q: ", s.name)))
		}
		if s.name != "" && names[s.name] {
			p.faultf(part, "there is another synchronizer of that name")
		}
		names[s.name] = true
		if !utf8.ValidString(s.name) {
			p.faultf(part, "the name is not UTF-8")
		}
		if err != nil {
			continue
		}
		found = append(found, r)
		p.checkMembers(part, r)
		for m, rule := range r.Methods {
			if len(rule.Checks) > 0 {
				checked[m] = part
			}
			if rule.Atomic {
				atomic[m] = part
			}
		}
	}
	for _, m := range slices.SortedFunc(maps.Keys(atomic), compareMethods) {
		if by := checked[m]; by != "" {
			p.faultf(atomic[m], "%q of stage %q has an atomic rule, and a constraint of %s: it can have one kind", m.Name, m.Of, by)
		}
	}
	return found
}

// evaluate calls init, and returns the rules. The error says if init has panicked.
func (s synchronization) evaluate() (r *rules.Rules, err error) {
	defer func() {
		if why := recover(); why != nil {
			r, err = nil, fmt.Errorf("init panicked: %v", why)
		}
	}()
	return synchronizer.Rules(s.name, s.init)
}

// faultsOf returns the errors that an error joins.
func faultsOf(err error) []error {
	if err == nil {
		return nil
	}
	if all, ok := err.(interface{ Unwrap() []error }); ok { // the error itself, not what it wraps
		return all.Unwrap()
	}
	return []error{err}
}

func compareMethods(a, b rules.Method) int {
	if c := strings.Compare(a.Of, b.Of); c != 0 {
		return c
	}
	return strings.Compare(a.Name, b.Name)
}

// checkMembers checks that the members of a synchronizer are stages of the pipeline that can be held back.
func (p coordination) checkMembers(part string, r *rules.Rules) {
	of := map[string]*engine.Core{}
	for _, name := range slices.Sorted(maps.Keys(r.Members)) {
		x, ok := r.Members[name].(cored)
		switch {
		case !ok:
			p.faultf(part, "names %q, a %T, which is no stage", name, r.Members[name])
		case !slices.Contains(p.stages, x.Core()):
			p.faultf(part, "names stage %q, which is not part of this pipeline", name)
		default:
			of[name] = x.Core()
		}
	}
	for _, m := range slices.SortedFunc(maps.Keys(r.Methods), compareMethods) {
		if c := of[m.Of]; c != nil {
			if problem := c.Holds(m.Name); problem != "" {
				p.faultf(part, "%q of stage %q: %s", m.Name, m.Of, problem)
			}
		}
	}
}
