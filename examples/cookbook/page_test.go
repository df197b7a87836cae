package cookbook

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/examples/internal/page"
)

const (
	root     = "../.."
	cookbook = "docs/cookbook.md"
)

func TestThePageShowsEachRecipeAsItRuns(t *testing.T) {
	files, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	var want, got []string
	for _, file := range files {
		if file != "page_test.go" {
			want = append(want, "examples/cookbook/"+file)
		}
	}
	for _, b := range page.Blocks(t, root, cookbook, "source") {
		got = append(got, b.Of)
		assert.Equal(t, recipe(t, b.Of), b.Text, "%s and %s differ", cookbook, b.Of)
	}
	assert.ElementsMatch(t, want, got, "each file has one block on %s", cookbook)
}

func TestARecipeHasAtMostFortyLines(t *testing.T) {
	for _, b := range page.Blocks(t, root, cookbook, "source") {
		_, function, ok := strings.Cut("\n"+b.Text, "\nfunc Example")
		if !ok {
			continue
		}
		function, _, ok = strings.Cut(function, "\n}\n")
		require.True(t, ok, b.Of)
		assert.LessOrEqual(t, strings.Count(function, "\n")+2, 40, b.Of)
	}
}

// recipe returns what follows the imports of a file.
func recipe(t *testing.T, file string) string {
	t.Helper()
	_, text, ok := strings.Cut(page.Read(t, root, file), "\n)\n\n")
	require.True(t, ok, "%s has no imports", file)
	return text
}
