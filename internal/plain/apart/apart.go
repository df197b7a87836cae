// Package apart describes values that may end the goroutine which asks them.
package apart

import "github.com/golda-dev/golda/internal/plain"

// Text is [plain.Text] of a value with which user code has panicked. It asks on
// a goroutine of its own, because a method of the value may end that.
func Text(v any) string {
	text := make(chan string, 1)
	go func() { defer close(text); text <- plain.Text(v) }()
	if t, returned := <-text; returned {
		return t
	}
	t, _ := plain.Shape(v, plain.Most)
	return t
}
