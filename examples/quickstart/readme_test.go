package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const root = "../.."

func TestTheReadmeShowsTheSource(t *testing.T) {
	blocks := blocks(t, "source")
	require.Len(t, blocks, 2, "README.md lost a block of code, or the comment above it")
	for file, text := range blocks {
		assert.Equal(t, marked(t, file), text, "README.md and %s differ", file)
	}
}

func TestTheReadmeShowsWhatTheProgramsPrint(t *testing.T) {
	blocks := blocks(t, "output")
	require.Len(t, blocks, 2, "README.md lost a block of output, or the comment above it")
	for program, text := range blocks {
		assert.Equal(t, run(t, program), text, "README.md and the output of %s differ", program)
	}
}

func TestTheMainFunctionIsFifteenLines(t *testing.T) {
	_, body, ok := strings.Cut(marked(t, "examples/quickstart/main.go"), "func main() {")
	require.True(t, ok)
	body, _, _ = strings.Cut(body, "\n}\n")
	lines := 2 // the first and the last
	for line := range strings.Lines(body) {
		if strings.TrimSpace(line) != "" {
			lines++
		}
	}
	assert.Equal(t, 15, lines)
}

var block = regexp.MustCompile("(?s)<!-- (source|output): (\\S+) -->\n\n```\\w+\n(.*?)```\n")

// blocks returns the README's code blocks that follow a comment of the given kind, by the file or program that the
// comment names.
func blocks(t *testing.T, kind string) map[string]string {
	t.Helper()
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	require.NoError(t, err)
	found := map[string]string{}
	for _, b := range block.FindAllStringSubmatch(string(readme), -1) {
		if b[1] == kind {
			found[b[2]] = b[3]
		}
	}
	return found
}

// marked returns the part of a file between its marks or, without marks, everything from the package clause on.
func marked(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, file))
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(text), "// quickstart:begin\n\n")
	if !ok {
		_, rest, ok = strings.Cut(string(text), "\npackage main\n")
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
