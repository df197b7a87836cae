package dashboard

import (
	"bytes"
	"encoding/json"
	"slices"
)

// patch returns the merge patch (RFC 7396) that makes one JSON value of
// another, both written by package json; changed is false if they are equal.
// Members of objects are compared one by one, and arrays as a whole.
func patch(from, to json.RawMessage) (text json.RawMessage, changed bool) {
	if bytes.Equal(from, to) {
		return nil, false
	}
	if len(from) == 0 || len(to) == 0 || from[0] != '{' || to[0] != '{' {
		return to, true
	}
	before, after := membersOf(from), membersOf(to)
	var out bytes.Buffer
	add := func(key string, value json.RawMessage) {
		if out.Len() == 0 {
			out.WriteByte('{')
		} else {
			out.WriteByte(',')
		}
		out.WriteString(key)
		out.WriteByte(':')
		out.Write(value)
	}
	for i, m := range after {
		old, known := find(before, i, m.key)
		if !known {
			add(m.key, m.value)
		} else if part, changed := patch(old, m.value); changed {
			add(m.key, part)
		}
	}
	for i, m := range before {
		if _, stays := find(after, i, m.key); !stays {
			add(m.key, json.RawMessage("null"))
		}
	}
	if out.Len() == 0 { // only their order is another
		return nil, false
	}
	out.WriteByte('}')
	return out.Bytes(), true
}

// member is a member of an object, with its key as it is written.
type member struct {
	key   string
	value json.RawMessage
}

// find returns the value of a member. It looks at the place first that the
// member has in the other object.
func find(in []member, at int, key string) (json.RawMessage, bool) {
	if at < len(in) && in[at].key == key {
		return in[at].value, true
	}
	if i := slices.IndexFunc(in, func(m member) bool { return m.key == key }); i >= 0 {
		return in[i].value, true
	}
	return nil, false
}

// membersOf splits an object that package json has written: there are no blanks
// between its tokens.
func membersOf(object json.RawMessage) (all []member) {
	for i := 1; i < len(object) && object[i] != '}'; {
		if object[i] == ',' {
			i++
		}
		end := i + lengthOf(object[i:])
		key := string(object[i:end])
		i = end + 1 // behind the colon
		end = i + lengthOf(object[i:])
		all = append(all, member{key, object[i:end]})
		i = end
	}
	return all
}

// lengthOf returns the length of the value that a text begins with.
func lengthOf(text []byte) int {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
			if depth == 0 {
				return i + 1
			}
		case '{', '[':
			depth++
		case '}', ']', ',', ':':
			if depth == 0 {
				return i // the end of a number or a word
			}
			if c == '}' || c == ']' {
				if depth--; depth == 0 {
					return i + 1
				}
			}
		}
	}
	return len(text)
}
