package main

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/examples/internal/page"
)

const root = "../.."

func TestTheReadmeShowsTheSource(t *testing.T) {
	blocks := page.Blocks(t, root, "README.md", "source")
	require.Len(t, blocks, 2, "README.md lost a block of code, or the comment above it")
	for _, b := range blocks {
		assert.Equal(t, marked(t, b.Of), b.Text, "README.md and %s differ", b.Of)
	}
}

func TestTheReadmeShowsWhatTheProgramsPrint(t *testing.T) {
	blocks := page.Blocks(t, root, "README.md", "output")
	require.Len(t, blocks, 2, "README.md lost a block of output, or the comment above it")
	for _, b := range blocks {
		assert.Equal(t, run(t, b.Of), b.Text, "README.md and the output of %s differ", b.Of)
	}
}

func TestTheFirstProgramFitsOnAScreen(t *testing.T) {
	assert.LessOrEqual(t, strings.Count(marked(t, "examples/quickstart/main.go"), "\n"), 40)
}

// marked returns the part of a file between its marks or, without marks, everything from the package clause on.
func marked(t *testing.T, file string) string {
	t.Helper()
	text := page.Read(t, root, file)
	_, rest, ok := strings.Cut(text, "// quickstart:begin\n\n")
	if !ok {
		_, rest, ok = strings.Cut(text, "\npackage main\n")
		require.True(t, ok, "%s has neither quickstart:begin nor a package clause", file)
		return "package main\n" + rest
	}
	shown, _, ok := strings.Cut(rest, "\n// quickstart:end\n")
	require.True(t, ok, "%s has no quickstart:end", file)
	return shown
}

// run returns what an example writes to its standard output.
func run(t *testing.T, program string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "run", program)
	cmd.Dir = root
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	require.NoError(t, err, complaint.String())
	return string(out)
}
