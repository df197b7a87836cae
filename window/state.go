package window

import (
	"container/list"
	"fmt"
	"reflect"
	"time"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/internal/states"
)

// saved is an open window as a checkpoint has it.
type saved[K comparable, V any] struct {
	Key    K
	Value  V
	Count  int // 0 in the period of a Throttle
	Bytes  int
	Sizes  []int // of the commands that are held
	Opened time.Time
	Since  time.Time
	Last   time.Time
}

// Unsavable returns why open windows cannot be saved; "" if they can.
func (s *collector[K, V, C]) Unsavable() string {
	return s.unsavable(reflect.TypeFor[K](), reflect.TypeFor[V]())
}

// Save returns the open windows, the oldest first.
func (s *collector[K, V, C]) Save() (states.State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.leaving) > 0 {
		return states.State{}, states.ErrBusy
	}
	all := make([]saved[K, V], 0, len(s.open))
	for _, of := range []*list.List{&s.order, &s.periods} {
		for e := of.Front(); e != nil; e = e.Next() {
			w := e.Value.(*window[K, V])
			if w.busy {
				return states.State{}, states.ErrBusy
			}
			one := saved[K, V]{Key: w.Key, Value: w.Value, Count: w.Count, Bytes: w.bytes, Opened: w.Opened, Since: w.since, Last: w.last}
			for _, at := range w.places {
				one.Sizes = append(one.Sizes, at.size)
			}
			all = append(all, one)
		}
	}
	data, err := states.Encode(all)
	return states.State{Type: s.stateType(reflect.TypeFor[K](), reflect.TypeFor[V]()), Entries: len(all), Data: data}, err
}

// Restore opens the windows of a state. A window is busy until all handlers
// that hold its commands have resumed.
func (s *collector[K, V, C]) Restore(state states.State) (loads []any, err error) {
	if state.Type != s.stateType(reflect.TypeFor[K](), reflect.TypeFor[V]()) {
		return nil, fmt.Errorf("it has %s, and the stage has %s", state.Type, s.stateType(reflect.TypeFor[K](), reflect.TypeFor[V]()))
	}
	var all []saved[K, V]
	if err := states.Decode(state.Data, &all); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.unlock()
	for i := range all {
		loads = append(loads, s.restoreLocked(&all[i])...)
	}
	return loads, nil
}

// restoreLocked opens a window, and returns the loads of the commands that hold
// it.
func (s *collector[K, V, C]) restoreLocked(from *saved[K, V]) (loads []any) {
	w := s.newWindow(from.Key)
	w.Value, w.Count, w.bytes = from.Value, from.Count, from.Bytes
	w.Opened, w.since, w.last = from.Opened, from.Since, from.Last
	if w.Count == 0 {
		w.move(&s.periods)
	}
	s.armLocked(w)
	left := len(from.Sizes)
	w.busy = left > 0
	for i, size := range from.Sizes {
		loads = append(loads, &link.Resume[behaviour.Suspender, behaviour.Outcome]{
			Shown: s.shown(w, i),
			Run: func(c behaviour.Suspender) behaviour.Outcome {
				s.mu.Lock()
				if w.closed { // it was parked
					s.unlock()
					return behaviour.OK(nil)
				}
				at := &place{size: size}
				w.places = append(w.places, at)
				s.held++
				if left--; left == 0 {
					s.settleLocked(w)
				}
				s.unlock()
				return s.stay(c, w, at)
			},
		})
	}
	return loads
}

// shown returns the value that letters show in the place of a command of an
// earlier process: the command, or the sum that includes it.
func (s *collector[K, V, C]) shown(w *window[K, V], i int) any {
	switch all := any(w.Value).(type) {
	case []C:
		if s.drop != nil {
			return all[i]
		}
	case C:
		if s.last {
			return all
		}
	}
	return w.Window
}

// Park ends the commands that are held, with no result, and forgets their
// windows.
func (s *collector[K, V, C]) Park() {
	s.mu.Lock()
	defer s.unlock()
	for _, w := range s.open {
		s.forgetLocked(w)
		s.endGroupLocked(&w.hold, nil)
		s.held -= len(w.places)
		s.endLocked(w.places, done, nil)
	}
}
