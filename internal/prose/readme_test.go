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

// Everything else has a page of its own.
func TestTheReadmeIsShort(t *testing.T) {
	assert.LessOrEqual(t, strings.Count(readPage(t, "README.md"), "\n"), 200)
}

func TestThePromisesOfTheReadmeLeadToTheirTests(t *testing.T) {
	promises := strings.Split(strings.TrimSpace(sectionOf(t, readPage(t, "README.md"), "What it promises")), "\n- ")
	require.Len(t, promises, 5)
	for _, promise := range promises {
		assert.Regexp(t, `\]\(docs/guarantees\.md#[\w-]+\)`, promise)
	}
}

func TestEachExampleIsInTheirIndex(t *testing.T) {
	entries, err := os.ReadDir(filepath.Join(root, "examples"))
	require.NoError(t, err)
	index := readPage(t, "examples", "README.md")
	for _, e := range entries {
		if e.IsDir() && e.Name() != "internal" {
			assert.Regexp(t, regexp.QuoteMeta("]("+e.Name()+")"), index, "examples/README.md")
		}
	}
}
