package inbox

import "github.com/golda-dev/golda/internal/plain"

// describe is [plain.Text] of what user code panicked with. It asks on a goroutine of its own, because a method of the value may end that.
func describe(v any) string {
	text := make(chan string, 1)
	go func() { defer close(text); text <- plain.Text(v) }()
	if t, returned := <-text; returned {
		return t
	}
	t, _ := plain.Shape(v, plain.Most)
	return t
}
