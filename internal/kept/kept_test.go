package kept

import (
	"encoding/json"
	"math/big"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

type (
	keptPlain struct {
		ID    int
		Text  string `json:"text,omitempty"`
		At    time.Time
		Bytes []byte
		Of    map[int][]*keptPlain
		Raw   json.RawMessage
		Cache func() `json:"-"`
		mu    int    `json:"-"`
		_     int
	}
	keptInner  struct{ A int }
	keptOuter  struct{ keptInner }
	keptBig    struct{ N *big.Int }
	keptNamed  struct{ time.Time }
	keptTagged struct {
		time.Time `json:"at"`
		ID        int `json:"-"`
	}
	keptSelf struct {
		time.Time

		ID int
	}

	lostHidden struct{ ID, total int } //nolint:unused // its total is what JSON loses
	lostAny    struct{ Meta map[string]any }
	lostNested struct{ Of []map[string]lostHidden }
	lostTime   struct {
		time.Time

		ID int
	}
	lostPointer struct{ *keptInner }
	lostShadow  struct {
		keptInner

		A int
	}
	lostWriter struct{ total int }
	lostBig    struct{ N big.Int }
)

func (s keptSelf) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{s.Time, s.ID})
}

func (s *keptSelf) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{&s.Time, &s.ID})
}

func (w lostWriter) MarshalJSON() ([]byte, error) { return json.Marshal(w.total) }

func TestTypesOfWhichJSONKeepsAll(t *testing.T) {
	for _, of := range []reflect.Type{
		reflect.TypeFor[keptPlain](), reflect.TypeFor[*keptPlain](), reflect.TypeFor[keptOuter](), reflect.TypeFor[keptBig](),
		reflect.TypeFor[keptNamed](), reflect.TypeFor[keptTagged](), reflect.TypeFor[keptSelf](), reflect.TypeFor[int](),
		reflect.TypeFor[[]string](), reflect.TypeFor[time.Duration](), reflect.TypeFor[struct{}](), reflect.TypeFor[[]big.Int](),
		reflect.TypeFor[map[time.Time]int](),
	} {
		assert.Empty(t, ByJSON(of), of)
	}
	_ = keptPlain{mu: 1}.mu
}

func TestWhatJSONDoesNotKeepHasAPath(t *testing.T) {
	rows := []struct {
		of   reflect.Type
		want string
	}{
		{reflect.TypeFor[lostHidden](), "kept.lostHidden.total is unexported"},
		{reflect.TypeFor[lostAny](), "kept.lostAny.Meta[] is of type interface {}"},
		{reflect.TypeFor[lostNested](), "kept.lostNested.Of[][].total is unexported"},
		{reflect.TypeFor[lostTime](), "kept.lostTime is of type kept.lostTime, which has the MarshalJSON of its embedded time.Time: that hides the other fields"},
		{reflect.TypeFor[lostPointer](), "kept.lostPointer.keptInner is unexported"},
		{reflect.TypeFor[lostShadow](), "kept.lostShadow.keptInner.A and kept.lostShadow.A have the same name in JSON"},
		{reflect.TypeFor[lostWriter](), "kept.lostWriter is of type kept.lostWriter, which has MarshalJSON and no UnmarshalJSON"},
		{reflect.TypeFor[lostBig](), "kept.lostBig.N.neg is unexported"},
		{reflect.TypeFor[struct{ Err error }](), "struct { Err error }.Err is of type error"},
		{reflect.TypeFor[struct{ C chan int }](), "struct { C chan int }.C is of type chan int"},
		{reflect.TypeFor[func()](), "func() is of type func()"},
		{reflect.TypeFor[complex128](), "complex128 is of type complex128"},
		{reflect.TypeFor[any](), "interface {} is of type interface {}"},
		{reflect.TypeFor[map[float64]int](), "map[float64]int has keys of type float64"},
	}
	for _, r := range rows {
		assert.Equal(t, r.want, ByJSON(r.of))
	}
}
