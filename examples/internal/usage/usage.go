// Package usage tests how the programs of the examples take their flags.
package usage

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/golda-dev/golda/examples/internal/show"
)

// Program runs a program and returns its exit status.
type Program func(args []string, stdout, stderr io.Writer) (status int)

// Refused requires that a program refuses arguments, starts nothing, and says
// why in one line. The cases are the arguments and the line on the standard
// error, by name.
func Refused(t *testing.T, run Program, cases map[string][2]string) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			assert.Equal(t, show.StatusUsage, run(strings.Fields(c[0]), &stdout, &stderr))
			assert.Empty(t, stdout.String())
			assert.Equal(t, c[1], stderr.String())
		})
	}
}

// Help requires that -help is no error, and that its text begins with the
// purpose of the program.
func Help(t *testing.T, run Program, about string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	assert.Equal(t, show.StatusOK, run([]string{"-help"}, &stdout, &stderr))
	assert.True(t, strings.HasPrefix(stdout.String(), about), stdout.String())
	assert.Empty(t, stderr.String())
}

// In returns a program that runs in a context.
func In(ctx context.Context, run func(ctx context.Context, args []string, stdout, stderr io.Writer) int) Program {
	return func(args []string, stdout, stderr io.Writer) int { return run(ctx, args, stdout, stderr) }
}
