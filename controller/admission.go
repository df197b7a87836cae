package controller

import (
	"math"
	"reflect"
)

func (t *settling) rate(w wish, name string, is *Admission) {
	r := w.value.(Rate)
	switch {
	case math.IsNaN(r.PerSecond) || math.IsInf(r.PerSecond, 0) || r.PerSecond < 0:
		t.faultf(w, name, "%v a second", r.PerSecond)
		return
	case r.PerSecond == 0:
		r = Rate{} // no limit, whatever the burst
	default:
		r.Burst = max(r.Burst, 1)
	}
	turn(t, w, name, is.Rate, r)
}

func (t *settling) shed(w wish, name string, is *Admission) {
	x := w.value.(Shed)
	if math.IsNaN(x.Probability) || math.IsNaN(x.Edge) {
		t.faultf(w, name, "not a number")
		return
	}
	x.Probability, x.Edge = min(max(x.Probability, 0), 1), min(max(x.Edge, 0), 1)
	turn(t, w, name, is.Shed, x)
}

// same reports whether two gates are equal. In Go, comparing values that cannot
// be compared (a function, or a value that holds one) panics; same reports them
// as different.
func same(a, b Gate) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return reflect.TypeOf(a) == reflect.TypeOf(b) && canCompare(a) && canCompare(b) && a == b
}

func canCompare(g Gate) bool {
	switch of := reflect.TypeOf(g); of.Kind() {
	case reflect.Struct, reflect.Array: // whether it can be compared depends on its fields
		return reflect.ValueOf(g).Comparable()
	default: // most gates are pointers, and this path allocates nothing
		return of.Comparable()
	}
}
