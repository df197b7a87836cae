package plain_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/internal/plain"
)

func TestMain(m *testing.M) {
	if os.Getenv("PLAIN_FMT") != "" {
		_ = fmt.Sprint(circle())
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// circle returns a value that contains itself.
func circle() any {
	m := map[string]any{}
	m["me"] = m
	return m
}

// bad is an error whose method is the given function.
type bad struct{ say func() string }

func (b bad) Error() string { return b.say() }

type named int

func (n named) String() string { return fmt.Sprintf("number %d", int(n)) }

func TestTextWritesWhatFmtWould(t *testing.T) {
	boom := errors.New("boom")
	for name, v := range map[string]any{
		"nil":                 nil,
		"a string":            "poison 7",
		"a number":            7,
		"a fraction":          float32(0.1),
		"an error":            boom,
		"a wrapped error":     fmt.Errorf("start: %w", boom),
		"a Stringer":          named(7),
		"errors in a slice":   []error{boom, boom},
		"an error in a field": struct{ Why error }{boom},
		"a duration inside":   []time.Duration{time.Second},
		"a pointer":           &struct{ N int }{7},
		"bytes":               []byte{1, 2},
		"a nil map":           map[string]int(nil),
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, fmt.Sprintf("%+v", v), plain.Text(v)) })
	}
}

func TestTextOfAnyTreeEqualsFmt(t *testing.T) {
	var tree func(depth int) *rapid.Generator[any]
	tree = func(depth int) *rapid.Generator[any] {
		leaf := rapid.OneOf(rapid.Int().AsAny(), rapid.String().AsAny(), rapid.Bool().AsAny(), rapid.Float64().AsAny())
		if depth == 0 {
			return leaf
		}
		below := tree(depth - 1)
		return rapid.OneOf(leaf, rapid.SliceOfN(below, 0, 3).AsAny(),
			rapid.MapOfN(rapid.Just("key"), below, 0, 1).AsAny())
	}
	rapid.Check(t, func(t *rapid.T) {
		v := tree(4).Draw(t, "value")
		require.Equal(t, fmt.Sprintf("%+v", v), plain.Text(v))
	})
}

func TestTextEndsForAnyValue(t *testing.T) {
	slice := make([]any, 1)
	slice[0] = slice
	type node struct{ Next any }
	ring := &node{}
	ring.Next = &ring.Next
	for name, c := range map[string]struct {
		value any
		says  string
	}{
		"a map that contains itself":                     {circle(), "map[me:map[me:"},
		"a slice that contains itself":                   {slice, "[[[["},
		"a pointer that points to itself":                {ring, "&{Next:("},
		"an Error that panics":                           {bad{func() string { panic("no") }}, "plain_test.bad {say:(func() string)}"},
		"an Error that panics with an Error that panics": {bad{func() string { panic(bad{func() string { panic(1) }}) }}, "plain_test.bad {say:"},
		"an Error of a nil pointer":                      {(*nilly)(nil), "*plain_test.nilly <nil>"},
		"a value that is too long":                       {strings.Repeat("x", 1<<20), strings.Repeat("x", 100)},
		"an error that is too long":                      {errors.New(strings.Repeat("x", 1<<20)), strings.Repeat("x", 100)},
		"a slice that is too long":                       {make([]int, 1<<20), "[0 0"},
		"a long text cut in the middle of a letter":      {strings.Repeat("€", 1<<20), "€€"},
	} {
		t.Run(name, func(t *testing.T) {
			text := plain.Text(c.value)
			require.True(t, strings.HasPrefix(text, c.says), "%.200s", text)
			require.LessOrEqual(t, len(text), plain.Most+len("... (cut)"))
			require.Equal(t, text, strings.ToValidUTF8(text, "?"))
		})
	}
}

// nilly has a method that dereferences a nil pointer.
type nilly struct{ text string }

func (n *nilly) Error() string { return n.text }

func TestShapeCallsNoMethod(t *testing.T) {
	text, cut := plain.Shape(struct{ Why error }{bad{func() string { panic("called") }}}, 100)
	require.Equal(t, "{Why:{say:(func() string)}}", text)
	require.False(t, cut)
	text, cut = plain.Shape(strings.Repeat("x", 11), 10)
	require.Equal(t, strings.Repeat("x", 10), text)
	require.True(t, cut)
}

// If fmt handles such values one day, this package is no longer needed.
func TestFmtOverflowsTheStackForAValueThatContainsItself(t *testing.T) {
	if testing.Short() {
		t.Skip("fills a stack of a gigabyte")
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "PLAIN_FMT=1")
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "stack overflow")
}
