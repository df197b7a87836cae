package part

import "reflect"

// LetterType is a letters.Type without its type: how the letters of commands of
// one type are measured and written. A function that the user has not given is
// nil.
type LetterType struct {
	Of     reflect.Type
	Size   func(cmd any) int
	Encode func(cmd any) ([]byte, error)
	Decode func(data []byte) (any, error)
}
