package command

import "context"

// Values are the values of a caller's context in another process, with the
// deadline that its commands take along. A nil Values has none.
type Values struct{ ctx context.Context }

// NewValues returns the values of a context, without its end.
func NewValues(ctx context.Context) *Values { return &Values{context.WithoutCancel(ctx)} }

// valuesKey is the key under which a context has the [Values] that it was made
// with.
type valuesKey struct{}

// Value returns the value for a key, and the Values themselves for the key of
// [Called].
func (v *Values) Value(key any) any {
	switch {
	case v == nil:
		return nil
	case key == valuesKey{}:
		return v
	default:
		return v.ctx.Value(key)
	}
}

// Called returns a context that has no more than the [Values] of ctx, and no
// end: the context for a command of another process, which a function handles
// that was given ctx.
func Called(ctx context.Context) context.Context {
	if v, ok := ctx.Value(valuesKey{}).(*Values); ok {
		return v.ctx
	}
	return context.Background()
}
