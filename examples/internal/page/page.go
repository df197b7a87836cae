// Package page reads the code blocks of the project's pages, so that a test can
// compare them with the sources that they show.
package page

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// Block is a code block of a page that follows a comment such as <!-- source:
// examples/quickstart/main.go -->.
type Block struct {
	Kind string // "source" or "output"
	Of   string // the file or program that the comment names
	Text string
}

var block = regexp.MustCompile("(?s)<!-- (source|output): (\\S+) -->\n\n```\\w+\n(.*?)```\n")

// Blocks returns the blocks of one kind of a page, in order. Root is the
// project's directory as seen from the test, and file the page's path in it.
func Blocks(t *testing.T, root, file, kind string) []Block {
	t.Helper()
	var found []Block
	for _, b := range block.FindAllStringSubmatch(Read(t, root, file), -1) {
		if b[1] == kind {
			found = append(found, Block{b[1], b[2], b[3]})
		}
	}
	return found
}

// Read returns the text of a file of the project.
func Read(t *testing.T, root, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, file))
	require.NoError(t, err)
	return string(text)
}
