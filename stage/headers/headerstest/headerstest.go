// Package headerstest has the test that everything passes that carries commands
// over the border of a process.
package headerstest

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/stage/headers"
)

// key is the key of the value that the test carries.
type key struct{}

const name = "X-Golda-Test"

// values is a propagator of one value.
type values struct{}

// Inject writes the value.
func (values) Inject(ctx context.Context, set func(name, value string)) {
	if v, ok := ctx.Value(key{}).(string); ok {
		set(name, v)
	}
}

// Extract reads it.
func (values) Extract(ctx context.Context, get func(name string) string) context.Context {
	if v := get(name); v != "" {
		return context.WithValue(ctx, key{}, v)
	}
	return ctx
}

// hostile panics.
type hostile struct{}

// Inject panics.
func (hostile) Inject(context.Context, func(string, string)) { panic("inject") }

// Extract panics.
func (hostile) Extract(context.Context, func(string) string) context.Context { panic("extract") }

// Run checks that a carrier takes headers along. Carry sends a command with ctx
// and returns the context of the handler that gets it, or one with the same
// values. Run uses propagators of its own, so no other test may do so meanwhile.
func Run(t *testing.T, carry func(t *testing.T, ctx context.Context) context.Context) {
	t.Helper()
	headers.Use(hostile{}, values{})
	t.Cleanup(func() { headers.Use() })
	for _, test := range []struct{ name, value, want string }{
		{"a value arrives", "a", "a"},
		{"another one does not find the first", "b", "b"},
		{"a command without a value has none", "", ""},
		{"a value with all characters of a header", "k=v,k2=v2;p \"q\" ü /?#[]@!$&'()*+", "k=v,k2=v2;p \"q\" ü /?#[]@!$&'()*+"},
		{"a line break is left out", "a\r\nX-Other: b", ""},
		{"white space around a value is left out with it", " a ", ""},
		{"four kilobytes arrive", strings.Repeat("x", 4<<10), strings.Repeat("x", 4<<10)},
		{"a value that is too large is left out", strings.Repeat("x", 9<<10), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx := t.Context()
			if test.value != "" {
				ctx = context.WithValue(ctx, key{}, test.value)
			}
			got, _ := carry(t, ctx).Value(key{}).(string)
			require.Equal(t, test.want, got)
		})
	}
}
