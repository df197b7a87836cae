package stagetest_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const page = "../../docs/testing.md"

// The page names a test for each clock, and shows the code of tests.
func TestThePageOnTestingNamesExistingTestsAndCode(t *testing.T) {
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	named := regexp.MustCompile("`([a-z/]+): (Test[A-Za-z0-9]+)`").FindAllStringSubmatch(string(text), -1)
	require.Greater(t, len(named), 30)
	for _, m := range named {
		require.True(t, has(t, m[1], m[2]), "%s has no %s", m[1], m[2])
	}

	sources := regexp.MustCompile("(?s)<!-- source: stage/stagetest/(\\S+) -->\n\n```go\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	require.Len(t, sources, 2)
	for _, m := range sources {
		source, err := os.ReadFile(m[1])
		require.NoError(t, err)
		require.Contains(t, string(source), m[2], "the page shows the code that runs")
	}
}

// has reports whether a package has a test.
func has(t *testing.T, pkg, test string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../..", pkg, "*_test.go"))
	require.NoError(t, err)
	for _, file := range files {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		if strings.Contains(string(source), "\nfunc "+test+"(") {
			return true
		}
	}
	return false
}
