package stage

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/golda-dev/golda/internal/states"
)

// errStateLost is why the states of a stage cannot be saved any more.
var errStateLost = errors.New("the stage was restarted, and has lost its states")

// Unsavable returns why the states of the keys cannot be saved; "" if they can.
func (s *keyed[C, K, B]) Unsavable() string {
	key := reflect.TypeFor[K]()
	for _, why := range []string{states.Keyless(key), states.Lossy(key)} {
		if why != "" {
			return "the states of its keys cannot be saved: " + why
		}
	}
	return ""
}

// Save returns the state of each key.
func (s *keyed[C, K, B]) Save() (states.State, error) {
	if s.starts.Load() > 1 {
		return states.State{}, errStateLost
	}
	var all []keptState[K]
	for i := range s.table {
		some, err := s.saveShard(&s.table[i])
		if err != nil {
			return states.State{}, err
		}
		all = append(all, some...)
	}
	types, err := typesOf(all)
	if err != nil {
		return states.State{}, err
	}
	data, err := states.Encode(all)
	return states.State{Type: s.stateType(types), Entries: len(all), Data: data}, err
}

// saveShard returns the states of a part of the keys.
func (s *keyed[C, K, B]) saveShard(sh *shard[K, B]) (all []keptState[K], err error) {
	sh.mu.Lock()
	entries := make([]*entry[K, B], 0, len(sh.byKey))
	for _, e := range sh.byKey {
		entries = append(entries, e)
	}
	sh.mu.Unlock()
	for _, e := range entries {
		if !e.state.CompareAndSwap(idle, atWork) { // a handler has it, or it is being passivated
			return nil, states.ErrBusy
		}
		if s.every > 1 && !e.kept {
			s.noteLast(e)
		}
		sh.mu.Lock()
		state := e.legacy.saved
		sh.mu.Unlock()
		e.state.Store(idle)
		if state != nil {
			all = append(all, keptState[K]{e.key, state})
		}
	}
	return all, nil
}

// typesOf describes the types of states, each once. The error says of which one
// something would not be saved.
func typesOf[K comparable](all []keptState[K]) (described []string, err error) {
	seen := map[reflect.Type]bool{}
	for i := range all {
		t := reflect.TypeOf(all[i].State)
		if seen[t] {
			continue
		}
		seen[t] = true
		if why := states.Lossy(t); why != "" {
			return nil, errors.New("a snapshot cannot be saved: " + why)
		}
		described = append(described, states.Describe(t))
	}
	slices.Sort(described)
	return described, nil
}

// stateType describes the types in a saved state.
func (s *keyed[C, K, B]) stateType(described []string) string {
	return fmt.Sprintf("snapshots by %s: %s", states.Describe(reflect.TypeFor[K]()), strings.Join(described, ", "))
}

// Restore has the stage start with a state for each key.
func (s *keyed[C, K, B]) Restore(state states.State) (loads []any, err error) {
	var all []keptState[K]
	if err := states.Decode(state.Data, &all); err != nil {
		return nil, fmt.Errorf("it has %s, and they cannot be read: %w", state.Type, err)
	}
	types, err := typesOf(all)
	if err != nil {
		return nil, err
	}
	if has := s.stateType(types); has != state.Type {
		return nil, fmt.Errorf("it has %s, and the program has %s", state.Type, has)
	}
	s.restored = all
	return nil, nil
}

// Park has nothing to end.
func (s *keyed[C, K, B]) Park() {}
