package prose

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A decision is a section of the page of its topic. A file that is not in the
// list, such as one with a number, belongs in a section.
func TestEachPageOfDecisionsIsInItsList(t *testing.T) {
	readme := readPage(t, "docs", "decisions", "README.md")
	listed := []string{"README.md"}
	for _, row := range tableOf(readme, "page") {
		name := pageLink.FindStringSubmatch(row[0])[1]
		listed = append(listed, name)
		title, _, _ := strings.Cut(readPage(t, "docs", "decisions", name), "\n")
		assert.Equal(t, "# "+inHeading.FindStringSubmatch(row[0])[1], title, "the row of %s is the title of the page", name)
	}
	entries, err := os.ReadDir(filepath.Join(root, "docs", "decisions"))
	require.NoError(t, err)
	var here []string
	for _, e := range entries {
		here = append(here, e.Name())
	}
	assert.ElementsMatch(t, here, listed, "the files of docs/decisions, and the rows of its README.md")
}

// A commit message names a decision by its old number, and the table of numbers
// leads to a section of a page in the list.
func TestEachOldNumberLeadsToASection(t *testing.T) {
	readme := readPage(t, "docs", "decisions", "README.md")
	numbers := tableOf(readme, "number")
	require.Len(t, numbers, 183)
	seen := map[string]bool{}
	for _, row := range numbers {
		assert.Regexp(t, `^\d{4}$`, row[0])
		assert.False(t, seen[row[0]], "%s has two rows", row[0])
		seen[row[0]] = true
		links := fragmentLink.FindAllStringSubmatch(row[1], -1)
		assert.NotEmpty(t, links, "the section of %s", row[0])
		for _, l := range links {
			assert.Contains(t, anchors(t, filepath.Join(root, "docs", "decisions", l[1])), l[2], "the section of %s", row[0])
		}
	}
}

// commented is a page of decisions that a comment refers to.
var commented = regexp.MustCompile(`docs/decisions/([\w-]+\.md)`)

func TestEachPageOfDecisionsThatACommentNamesIsThere(t *testing.T) {
	named := 0
	for _, path := range files(t, ".go") {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, m := range commented.FindAllStringSubmatch(string(text), -1) {
			named++
			assert.FileExists(t, filepath.Join(root, "docs", "decisions", m[1]), "named in %s", path)
		}
	}
	require.Positive(t, named)
}
