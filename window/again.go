package window

import (
	"errors"
	"reflect"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/link"
)

// SumType returns the type of the windows that letters have in place of the
// first command; nil if the stage is no aggregate.
func (s *collector[K, V, C]) SumType() reflect.Type {
	if !s.sums {
		return nil
	}
	return reflect.TypeFor[Window[K, V]]()
}

// LostIn returns the window that could not be passed on, from an error.
func (s *collector[K, V, C]) LostIn(err error) (sum any, use link.Use) {
	if lost, ok := errors.AsType[*LostError](err); ok {
		if w, ok := lost.Window.(Window[K, V]); ok { // an error of another stage may have another type
			return w, lost.use
		}
	}
	return nil, nil
}

// PassAgain returns the load of a command that passes on a window of a letter.
func (s *collector[K, V, C]) PassAgain(sum any) (load any) {
	return &link.Resume[behaviour.Suspender, behaviour.Outcome]{
		Shown: sum,
		Run: func(c behaviour.Suspender) behaviour.Outcome {
			at := &place{from: originOf(c), state: carries}
			w := &window[K, V]{Window: sum.(Window[K, V]), hold: hold{places: []*place{at}, closed: true}}
			s.mu.Lock()
			s.lineUpLocked(w)
			s.unlock()
			return s.carry(c, w)
		},
	}
}

// adding is the use of a window by the function that adds.
type adding[K comparable, V, C any] struct {
	s *collector[K, V, C]
	w *window[K, V]
}

// Returned reports whether the function has returned.
func (a adding[K, V, C]) Returned() bool {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	return !a.w.busy
}

// AfterReturn calls f when the function has returned.
func (a adding[K, V, C]) AfterReturn(f func()) {
	a.s.mu.Lock()
	busy := a.w.busy
	if busy { // f encodes the window, which must not be done under the lock
		a.w.blocked = append(a.w.blocked, func() { go f() })
	}
	a.s.mu.Unlock()
	if !busy {
		f()
	}
}
