package prose

import (
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A clause without a noun is short, and hard to read: its subject is a
// pronoun that stands for something said elsewhere. Words can be banned, and
// then the clause comes back in other words; so its syntax is counted.
var (
	// headless matches "what" with a verb behind it: "what waits", "what came of it".
	headless = regexp.MustCompile(`(?i)\bwhat(?:\s+(?:it|they|he|this|that|one))?\s+(?:\w+(?:s|ed)|came|come|went|go|goes|had|have|will|would|may|might|can|could|must|are|were|do|did|be)\b`)
	// pronoun matches "that of", "those that" and the like.
	pronoun = regexp.MustCompile(`(?i)\b(?:that of|those of|those that|that which|the ones? that|the ones? of)\b`)
)

// At most so many clauses may be in 1,000 lines of comments.
const (
	mostHeadless = 10
	mostPronouns = 5
)

// prose is the comments of one package, tests left out.
type prose struct{ lines, headless, pronouns int }

func (p *prose) add(comment string) {
	p.lines += 1 + strings.Count(comment, "\n")
	joined := regexp.MustCompile(`\n\s*//`).ReplaceAllString(comment, "")
	p.headless += len(headless.FindAllString(joined, -1))
	p.pronouns += len(pronoun.FindAllString(joined, -1))
}

// allowed returns the limits of so many lines. A short package may have one
// clause of each kind.
func (p prose) allowed() (headless, pronouns int) {
	return max(1, mostHeadless*p.lines/1000), max(1, mostPronouns*p.lines/1000)
}

func TestClausesHaveNouns(t *testing.T) {
	found := comments(t)
	for _, pkg := range slices.Sorted(maps.Keys(found)) {
		p := *found[pkg]
		headless, pronouns := p.allowed()
		if p.headless > headless || p.pronouns > pronouns {
			t.Errorf("%s: %d of %d headless clauses (what waits) and %d of %d pronouns (those that) in %d lines of comments: name the noun",
				pkg, p.headless, headless, p.pronouns, pronouns, p.lines)
		}
	}
}

func TestTheCountFindsClausesAcrossLines(t *testing.T) {
	var p prose
	p.add("// F does what\n// waits, and those\n// that came. What a stage is, it says what to do.")
	require.Equal(t, prose{lines: 3, headless: 1, pronouns: 1}, p)
}

// comments returns the comments of each package.
func comments(t *testing.T) map[string]*prose {
	t.Helper()
	found := map[string]*prose{}
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && path != root || d.Name() == "testdata"):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		dir = filepath.ToSlash(dir)
		if found[dir] == nil {
			found[dir] = new(prose)
		}
		for _, group := range file.Comments {
			var lines []string
			for _, c := range group.List {
				lines = append(lines, c.Text)
			}
			found[dir].add(strings.Join(lines, "\n"))
		}
		return nil
	}))
	require.Greater(t, len(found), 50)
	return found
}
