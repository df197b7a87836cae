package prose

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each page is in one of the four groups, and in one only. A folder of pages is
// there as its README.md.
func TestEachPageIsInTheIndex(t *testing.T) {
	var here, there []string
	groups := sections(readPage(t, "docs", "README.md"))
	require.Len(t, groups, 4)
	for _, group := range groups {
		for _, row := range rowsOf(group.text) {
			here = append(here, pageLink.FindStringSubmatch(row[0])[1])
		}
	}
	for _, pattern := range []string{"*.md", "*/README.md"} {
		found, err := filepath.Glob(filepath.Join(root, "docs", pattern))
		require.NoError(t, err)
		for _, path := range found {
			page, err := filepath.Rel(filepath.Join(root, "docs"), path)
			require.NoError(t, err)
			if page = filepath.ToSlash(page); page != "README.md" {
				there = append(there, page)
			}
		}
	}
	assert.ElementsMatch(t, there, here, "the pages of docs, and the rows of docs/README.md")
}
