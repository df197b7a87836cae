package comingfrom

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/examples/internal/page"
)

const root = "../.."

func TestThePageShowsEachExampleAsItRuns(t *testing.T) {
	files, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	var want, got []string
	for _, file := range files {
		if file != "page_test.go" {
			want = append(want, "examples/comingfrom/"+file)
		}
	}
	for _, b := range page.Blocks(t, root, "docs/coming-from.md", "source") {
		got = append(got, b.Of)
		_, shown, ok := strings.Cut(page.Read(t, root, b.Of), "\n)\n\n")
		require.True(t, ok, "%s has no imports", b.Of)
		assert.Equal(t, shown, b.Text, "docs/coming-from.md and %s differ", b.Of)
	}
	assert.ElementsMatch(t, want, got, "each file has one block on docs/coming-from.md")
}
