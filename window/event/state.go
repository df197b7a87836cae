package event

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/internal/states"
)

// saved is all windows and watermarks as a checkpoint has them.
type saved[K comparable, A any] struct {
	Mark, Latest int64
	Sources      []savedSource
	Keys         []savedKey[K] // with ByKey
	Windows      []savedWindow[K, A]
}

type savedSource struct {
	Name   string
	Latest int64
}

type savedKey[K comparable] struct {
	Key          K
	Mark, Latest int64
}

type savedWindow[K comparable, A any] struct {
	Key        K
	Start, End int64
	Value      A
	Count      int
	Passed     int
	Over       bool
	Held       bool // it has commands that no result has
}

// Unsavable returns why windows cannot be saved; "" if they can.
func (k *keeper[K, A]) Unsavable() string {
	key := reflect.TypeFor[K]()
	if why := cmp.Or(states.Keyless(key), states.Lossy(key), states.Lossy(reflect.TypeFor[A]())); why != "" {
		return "its windows cannot be saved: " + why
	}
	return ""
}

// Save returns the windows, in the order in which they were opened, and the
// watermarks.
func (k *keeper[K, A]) Save() (states.State, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.adding || len(k.leaving) > 0 {
		return states.State{}, states.ErrBusy
	}
	all := saved[K, A]{Mark: k.clock.mark, Latest: k.clock.latest}
	for _, name := range slices.Sorted(maps.Keys(k.sources)) {
		all.Sources = append(all.Sources, savedSource{name, k.sources[name].latest})
	}
	if k.byKey {
		for key, e := range k.keys {
			all.Keys = append(all.Keys, savedKey[K]{key, e.mark, e.latest})
		}
	}
	for _, w := range slices.SortedFunc(slices.Values(k.queue), func(a, b *window[K, A]) int { return cmp.Compare(a.seq, b.seq) }) {
		if w.pane != nil && !w.pane.arrived {
			return states.State{}, states.ErrBusy
		}
		all.Windows = append(all.Windows, savedWindow[K, A]{w.of.key, w.start, w.end, w.value, w.count, w.passed, w.over, w.pane != nil})
	}
	data, err := states.Encode(all)
	return states.State{Type: k.stateType(), Entries: len(all.Windows), Data: data}, err
}

// stateType describes the types in a saved state, and the form of the windows.
func (k *keeper[K, A]) stateType() string {
	f := &k.form
	form := fmt.Sprintf("%s(%v)", f.name, time.Duration(f.length))
	if f.name == "Sliding" {
		form = fmt.Sprintf("%s(%v, %v)", f.name, time.Duration(f.length), time.Duration(f.every))
	}
	return fmt.Sprintf("event.%s of %s by %s", form, states.Describe(reflect.TypeFor[A]()), states.Describe(reflect.TypeFor[K]()))
}

// Restore opens the windows of a state, and returns the loads of the commands
// that hold them.
func (k *keeper[K, A]) Restore(state states.State) (loads []any, err error) {
	if state.Type != k.stateType() {
		return nil, fmt.Errorf("it has %s, and the stage has %s", state.Type, k.stateType())
	}
	var all saved[K, A]
	if err := states.Decode(state.Data, &all); err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.clock = clock{latest: all.Latest, mark: all.Mark, active: true}
	for _, s := range all.Sources {
		k.sources[s.Name] = &clock{latest: s.Latest, active: true}
	}
	k.compareLocked()
	for _, one := range all.Keys {
		k.keys[one.Key] = &entry[K, A]{key: one.Key, clock: clock{latest: one.Latest, mark: one.Mark, active: true}}
	}
	for i := range all.Windows {
		loads = append(loads, k.restoreLocked(&all.Windows[i])...)
	}
	if len(k.sources)+len(k.keys) > 0 {
		k.armLocked()
	}
	return loads, nil
}

// restoreLocked opens a window, and returns the load of the command that holds
// it, if it has one.
func (k *keeper[K, A]) restoreLocked(from *savedWindow[K, A]) (loads []any) {
	w := k.newWindow(k.keys[from.Key], from.Key, from.Start, from.End)
	w.value, w.count, w.passed = from.Value, from.Count, from.Passed
	k.openLocked(w)
	w.over = from.Over
	k.queue.move(w, k.dueOf(w))
	if !from.Held {
		return nil
	}
	p := &pane[K, A]{keeper: k, of: w}
	w.pane = p
	return []any{&link.Resume[behaviour.Suspender, behaviour.Outcome]{
		Shown: w.result(true),
		Run:   func(c behaviour.Suspender) behaviour.Outcome { return k.HandleSuspending(c, p) },
	}}
}

// Park ends the commands that hold windows, with no result, and forgets the
// windows.
func (k *keeper[K, A]) Park() {
	var groups []command.Group
	k.mu.Lock()
	for _, w := range slices.Clone(k.queue) {
		p := w.pane
		w.pane = nil
		if k.forgetLocked(w); p != nil {
			k.leaveLocked(p, parked)
			groups = append(groups, p.group)
			p.group = command.Group{}
		}
	}
	k.mu.Unlock()
	for i := range groups {
		groups[i].End(nil)
	}
}
