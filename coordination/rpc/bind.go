package rpc

import (
	"reflect"
	"sync"
)

// A value that a node receives encoded may hold addresses. A decoder does not
// know the node, so the node binds the addresses to itself afterwards: calls to
// them then leave through it.

var addressType = reflect.TypeFor[Address]()

// bindable remembers which types may hold addresses.
var bindable sync.Map // reflect.Type to bool

// bind binds all addresses in the value that v points to.
func (n *Node) bind(v any) {
	if to := reflect.ValueOf(v).Elem(); mayHold(to.Type()) {
		n.bindValue(to)
	}
}

func (n *Node) bindValue(v reflect.Value) {
	if v.Type() == addressType {
		v.Addr().Interface().(*Address).at = n
		return
	}
	if !mayHold(v.Type()) {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			n.bindValue(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() || f.Anonymous {
				n.bindValue(v.Field(i))
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			n.bindValue(v.Index(i))
		}
	case reflect.Map:
		n.bindMap(v)
	default:
	}
}

// bindMap binds the addresses that a map holds. Keys and elements of a map
// cannot be changed in place.
func (n *Node) bindMap(v reflect.Value) {
	if v.IsNil() {
		return
	}
	bound := reflect.MakeMapWithSize(v.Type(), v.Len())
	for key, elem := range v.Seq2() {
		k, e := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		k.Set(key)
		e.Set(elem)
		n.bindValue(k)
		n.bindValue(e)
		bound.SetMapIndex(k, e)
	}
	v.Set(bound)
}

// mayHold reports whether a decoded value of a type may hold an address.
func mayHold(t reflect.Type) bool {
	if known, ok := bindable.Load(t); ok {
		return known.(bool)
	}
	holds := search(t, map[reflect.Type]bool{})
	bindable.Store(t, holds)
	return holds
}

// search looks for an address in a type. Types that are being searched are in
// seen.
func search(t reflect.Type, seen map[reflect.Type]bool) bool {
	if t == addressType {
		return true
	}
	if seen[t] {
		return false
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return search(t.Elem(), seen)
	case reflect.Map:
		return search(t.Key(), seen) || search(t.Elem(), seen)
	case reflect.Struct:
		for f := range t.Fields() {
			if (f.IsExported() || f.Anonymous) && search(f.Type, seen) {
				return true
			}
		}
	default:
	}
	return false
}
