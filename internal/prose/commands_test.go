package prose

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	testCommand = regexp.MustCompile("`go test -run ([\\w|]+) (\\./\\S+)`")
	testNamed   = regexp.MustCompile("`([\\w/]+): ((?:Test|Fuzz|Example)\\w*)`")
	testFunc    = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Example)\w*)\(`)
)

// A claim of a page may name the command that shows it. If no test matched, the command would pass.
func TestEachTestThatAPageNamesIsThere(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	require.NoError(t, err)
	found := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, m := range testCommand.FindAllStringSubmatch(string(text), -1) {
			found++
			require.True(t, hasTest(t, m[2], regexp.MustCompile(m[1])), "%s: %s runs no test", page, m[0])
		}
		for _, m := range testNamed.FindAllStringSubmatch(string(text), -1) {
			require.True(t, hasTest(t, m[1], regexp.MustCompile("^"+m[2]+"$")), "%s: %s is no test", page, m[0])
		}
	}
	require.Positive(t, found)
}

// hasTest reports whether a package has a test whose name matches.
func hasTest(t *testing.T, pkg string, match *regexp.Regexp) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, pkg, "*_test.go"))
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range testFunc.FindAllStringSubmatch(string(text), -1) {
			if match.MatchString(m[1]) {
				return true
			}
		}
	}
	return false
}
