package letters

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

type (
	statusError struct{ Code int }
	wordError   string
	codeError   uint8
	textError   struct {
		Msg   string
		cause error
	}
	rudeError struct{ next error }
	ringError struct{ Err error }
)

func (*statusError) Error() string { panic("called") }
func (wordError) Error() string    { panic("called") }
func (codeError) Error() string    { panic("called") }
func (*textError) Error() string   { panic("called") }
func (rudeError) Error() string    { runtime.Goexit(); return "" }
func (rudeError) Unwrap() error    { panic("called") }
func (*ringError) Error() string   { panic("called") }

func TestAKindOfErrorsIsTheirTypesAndTheirTextsWithoutThePartsThatVary(t *testing.T) {
	ring := &ringError{}
	ring.Err = ring
	refused := &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.Errno(111))}
	for want, err := range map[string]error{
		"no such page":                    errors.New("no such page"),
		"page #: no such page":            fmt.Errorf("page %d: %w", 7, errors.New("no such page")),
		"a #, b # and c":                  fmt.Errorf("a %d, b %q and c", 1, "x y"),
		"get #: EOF":                      errors.New("get https://example.org/a?b=1: EOF"),
		"open #: denied (code #)":         errors.New("open /tmp/x-1.txt: denied (code 0x1f)"),
		"dial tcp #: refused":             errors.New("dial tcp 127.0.0.1:8080: refused"),
		"id # is gone":                    errors.New("id 550e8400-e29b-41d4-a716-446655440000 is gone"),
		"it's \"open":                     errors.New(`it's "open`),
		"first":                           errors.Join(errors.New("first"), errors.New("second")),
		"first #; second":                 fmt.Errorf("%w; %w", errors.New("first 1"), errors.New("second")),
		"*letters.statusError":            &statusError{404},
		"letters.wordError: page #":       wordError("page 3"),
		"letters.codeError(3)":            codeError(3),
		"*letters.textError: a #: b":      &textError{"a 1", errors.New("b")},
		"letters.rudeError: in":           rudeError{errors.New("in")},
		"letters.rudeError":               rudeError{},
		"*letters.textError":              (*textError)(nil),
		"context.deadlineExceededError":   context.DeadlineExceeded,
		"*fs.PathError: syscall.Errno(2)": &os.PathError{Op: "open", Path: "/x", Err: syscall.Errno(2)},
		"*url.Error: *net.OpError: *os.SyscallError: syscall.Errno(111)": &url.Error{Op: "Get", URL: "http://x", Err: refused},
		strings.Repeat("*letters.ringError: ", 7) + "*letters.ringError": ring,
		"": nil,
	} {
		require.Equal(t, want, kindOf(err))
	}
	long := kindOf(errors.New(strings.Repeat("word ", 1<<20)))
	require.Len(t, long, maxKind)
	require.NotContains(t, kindOf(errors.New(strings.Repeat("ä", maxKind)+"b")), "\uFFFD")
}

func BenchmarkKindOf(b *testing.B) {
	for name, err := range map[string]error{
		"sentinel": errors.New("no such page"),
		"wrapped":  fmt.Errorf("page %d: %w", 17, errors.New("no such page")),
		"typed":    &url.Error{Op: "Get", URL: "http://x", Err: &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.Errno(111))}},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				kindOf(err)
			}
		})
	}
}
