package kept

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"unicode/utf8"
)

// replacement is the text that package json writes for bytes of a string that
// are not UTF-8.
var replacement = []byte(`\ufffd`)

// Marshal returns the JSON of a value, as json.Marshal does. The error names a
// string of the value that is not UTF-8, which json.Marshal changes. A type
// with a MarshalJSON of its own is trusted.
func Marshal(v any) ([]byte, error) {
	data, err := json.Marshal(v)
	if err != nil || !bytes.Contains(data, replacement) {
		return data, err
	}
	if path := changed(reflect.ValueOf(v), reflect.TypeOf(v).String()); path != "" {
		return nil, fmt.Errorf("JSON does not keep %s: the string is not UTF-8; make it a []byte, or give its type a codec", path)
	}
	return data, nil
}

// changed returns the path of a string that package json changes; "" if there
// is none. The value has no cycles: json.Marshal has written it.
func changed(v reflect.Value, path string) string {
	if own, valid := writesItself(v); own {
		return unless(valid, path)
	}
	switch v.Kind() {
	case reflect.String:
		return unless(utf8.ValidString(v.String()), path)
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return ""
		}
		return changed(v.Elem(), path)
	case reflect.Slice, reflect.Array:
		return changedElement(v, path+"[]")
	case reflect.Map:
		return changedEntry(v, path)
	case reflect.Struct:
		return changedField(v, path)
	default:
		return ""
	}
}

func unless(valid bool, path string) string {
	if valid {
		return ""
	}
	return path
}

// writesItself reports whether the type of a value has a method that package
// json calls, and whether the result of that method is valid as it is.
func writesItself(v reflect.Value) (own, valid bool) {
	if v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface || !v.CanInterface() {
		return false, true
	}
	if v.CanAddr() {
		v = v.Addr() // has the methods of both
	}
	switch x := v.Interface().(type) {
	case json.Marshaler:
		return true, true
	case encoding.TextMarshaler:
		text, _ := x.MarshalText()
		return true, utf8.Valid(text)
	default:
		return false, true
	}
}

func changedElement(v reflect.Value, path string) string {
	if v.Type().Elem().Kind() == reflect.Uint8 {
		return ""
	}
	for i := range v.Len() {
		if problem := changed(v.Index(i), path); problem != "" {
			return problem
		}
	}
	return ""
}

func changedEntry(v reflect.Value, path string) string {
	for entry := v.MapRange(); entry.Next(); {
		if !keepsText(entry.Key()) {
			return "a key of " + path
		}
		if problem := changed(entry.Value(), path+"[]"); problem != "" {
			return problem
		}
	}
	return ""
}

// keepsText reports whether package json writes a key of a map as it is. Of a
// string it does not call the methods.
func keepsText(key reflect.Value) bool {
	if key.Kind() == reflect.String {
		return utf8.ValidString(key.String())
	}
	_, valid := writesItself(key)
	return valid
}

func changedField(v reflect.Value, path string) string {
	for f, of := range v.Fields() {
		if f.Tag.Get("json") == "-" || !f.IsExported() && !f.Anonymous {
			continue
		}
		if problem := changed(of, path+"."+f.Name); problem != "" {
			return problem
		}
	}
	return ""
}
