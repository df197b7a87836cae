package prose

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
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
	for _, path := range pages(t) {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, m := range pageLink.FindAllStringSubmatch(fenced.ReplaceAllString(string(text), ""), -1) {
			links++
			_, err := os.Stat(filepath.Join(filepath.Dir(path), m[1]))
			assert.NoError(t, err, "a link in %s", path)
		}
	}
	require.Greater(t, links, 100)
}

// fragmentLink is a link to a heading of a page, perhaps of the same one.
var fragmentLink = regexp.MustCompile(`\]\(([^)#:\s]*\.md)?#([^)\s]+)\)`)

func TestEachFragmentOfALinkIsAHeading(t *testing.T) {
	links := 0
	for _, path := range pages(t) {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, m := range fragmentLink.FindAllStringSubmatch(fenced.ReplaceAllString(string(text), ""), -1) {
			links++
			to := path
			if m[1] != "" {
				to = filepath.Join(filepath.Dir(path), m[1])
			}
			assert.Contains(t, anchors(t, to), m[2], "a link in %s", path)
		}
	}
	require.Greater(t, links, 100)
}

var (
	headline  = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	block     = regexp.MustCompile("(?s)```.*?```")
	inHeading = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`) // a link in a heading
	dropped   = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors returns the fragments by which the headings of a page are reached.
func anchors(t *testing.T, path string) (found []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, m := range headline.FindAllStringSubmatch(block.ReplaceAllString(string(text), ""), -1) {
		heading := strings.ToLower(inHeading.ReplaceAllString(m[1], "$1"))
		found = append(found, strings.ReplaceAll(dropped.ReplaceAllString(heading, ""), " ", "-"))
	}
	return found
}

// pages returns the paths of all pages of the project.
func pages(t *testing.T) []string { return files(t, ".md") }

// files returns the paths of all files of the project with one of the extensions.
func files(t *testing.T, extensions ...string) (paths []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && path != root || d.Name() == "node_modules" || d.Name() == "testdata"):
			return filepath.SkipDir
		case !d.IsDir() && slices.Contains(extensions, filepath.Ext(path)):
			paths = append(paths, path)
		}
		return nil
	}))
	return paths
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
