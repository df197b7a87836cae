package prose

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the present lines into docs/architecture.md")

// link is a name in code font that links to a line: [`Inbox.Submit`](../internal/inbox/submit.go#L40).
var link = regexp.MustCompile("\\[`([\\w.]+)`\\]\\(\\.\\./([\\w./]+\\.go)#L(\\d+)\\)")

// To write the present lines:
//
//	go test ./internal/prose -run LinksToItsLine -update
func TestEachNameInTheArchitectureLinksToItsLine(t *testing.T) {
	page := filepath.Join(root, "docs", "architecture.md")
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	found := 0
	fresh := link.ReplaceAllStringFunc(string(text), func(l string) string {
		m := link.FindStringSubmatch(l)
		found++
		line, err := lineOf(filepath.Join(root, m[2]), m[1])
		require.NoError(t, err)
		if !*update {
			assert.Equal(t, strconv.Itoa(line), m[3], "the line of %s in %s: run go test ./internal/prose -run LinksToItsLine -update", m[1], m[2])
		}
		return fmt.Sprintf("[`%s`](../%s#L%d)", m[1], m[2], line)
	})
	require.Positive(t, found)
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(fresh), 0o644))
	}
}

// pageLink is the target of a link in a page, without its fragment, unless it is
// on another host.
var pageLink = regexp.MustCompile(`\]\(([^)#:\s]+)(?:#[^)]*)?\)`)

// fenced is a block of code in a page, or a name in code font.
var fenced = regexp.MustCompile("(?s)```.*?```|`[^`\n]*`")

func TestEachRelativeLinkOfAPageLeadsToAFile(t *testing.T) {
	links := 0
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && path != root || d.Name() == "node_modules" || d.Name() == "testdata"):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".md":
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range pageLink.FindAllStringSubmatch(fenced.ReplaceAllString(string(text), ""), -1) {
			links++
			_, err := os.Stat(filepath.Join(filepath.Dir(path), m[1]))
			assert.NoError(t, err, "a link in %s", path)
		}
		return nil
	}))
	require.Greater(t, links, 100)
}

// lineOf finds the line of a file that declares a name: a function, a type, or a method with its receiver's type.
func lineOf(path, name string) (int, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	pattern := `^(?:func|type) ` + name + `\b`
	if of, method, ok := strings.Cut(name, "."); ok {
		pattern = `^func \(\w+ \*?` + of + `(?:\[\w+\])?\) ` + method + `\(`
	}
	declares := regexp.MustCompile(pattern)
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		if declares.MatchString(line) {
			return n, nil
		}
	}
	return 0, fmt.Errorf("%s declares no %s", path, name)
}
