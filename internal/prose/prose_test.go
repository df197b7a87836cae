package prose

import (
	"bufio"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
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

// root is the project's root, seen from this package.
const root = "../.."

// banned are the words that may not occur, with what to write instead. Each line is the words, a colon, and the advice.
const banned = `
who whom whoever who's:                       name what acts: the worker, the caller, the inbox
whosoever nobody somebody anybody everybody:  name what acts, or say "no caller", "any goroutine"
he him his himself she her:                   name what acts
house:                                        pipeline, or project
crew crews:                                   shared pool
shelf shelves shelved:                        idle instances
clerk clerks desk:                            control loop
forsake forsakes forsook forsaken forsaking:  abandon
doze dozes dozed dozing dozer dozers:         a worker that is not started yet
doorstep:                                     endpoint
mourn mourns mourned:                         watch
thrice whence hitherto heretofore:            plain English
`

func TestProseUsesPlainWords(t *testing.T) {
	for _, f := range findings(t) {
		t.Errorf("%s:%d: %q: write: %s", f.path, f.line, f.word, f.advice)
	}
}

func TestTheProjectHasAtMostSeventyWords(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "words.md"))
	require.NoError(t, err)
	words := strings.Count(string(page), "\n| **")
	assert.Positive(t, words)
	assert.LessOrEqual(t, words, 70, "take a word out of docs/words.md before you add one")
}

func TestTheScanFindsAWordWhereverItStands(t *testing.T) {
	const code = `// Package p is for whoever needs it.
package p

// F does nothing.
func F() { panic("stage: nobody is there, his worker is busy"); /* the house */ }

func TestSomebodyIsTold(t *T) { _ = "he"; _ = "crew" + "` + "`x`" + `" }
`
	var got []string
	for _, f := range inCode(t, "p_test.go", []byte(code)) {
		got = append(got, fmt.Sprintf("%d %s", f.line, f.word))
	}
	assert.ElementsMatch(t, []string{"1 whoever", "5 nobody", "5 his", "5 house", "7 somebody"}, got)

	got = nil
	for _, f := range inPage("p.md", "One.\nNobody, [who](who.md#who) `who` ran.\n```go\nwho()\n```\nWhose is it? The crew's.\n") {
		got = append(got, fmt.Sprintf("%d %s", f.line, f.word))
	}
	assert.ElementsMatch(t, []string{"2 Nobody", "2 who", "6 crew"}, got)
}

// finding is a banned word at a place.
type finding struct {
	path   string
	line   int
	word   string
	advice string
}

func findings(t *testing.T) (found []finding) {
	t.Helper()
	scanned := files(t, ".go", ".md")
	require.Greater(t, len(scanned), 100, "the scan finds few files: is %s the project's root?", root)
	for _, path := range scanned {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		name, err := filepath.Rel(root, path)
		require.NoError(t, err)
		name = filepath.ToSlash(name)
		switch {
		case below(name, "internal/prose"): // it names the words
		case filepath.Ext(path) == ".go":
			found = append(found, inCode(t, name, text)...)
		default:
			found = append(found, inPage(name, string(text))...)
		}
	}
	return found
}

// inCode scans the comments, the sentences among the string literals, and the names of tests.
func inCode(t *testing.T, path string, code []byte) (found []finding) {
	t.Helper()
	set := token.NewFileSet()
	file := set.AddFile(path, -1, len(code))
	var s scanner.Scanner
	s.Init(file, code, nil, scanner.ScanComments)
	for {
		pos, tok, text := s.Scan()
		if tok == token.EOF {
			break
		}
		line := set.Position(pos).Line
		switch {
		case tok == token.COMMENT && !strings.HasPrefix(text, "//go:"):
			found = append(found, inText(path, line, text)...)
		case tok == token.STRING && text[0] == '"':
			if text, err := strconv.Unquote(text); err == nil && strings.Contains(text, " ") {
				found = append(found, inText(path, line, text)...)
			}
		}
	}
	return append(found, inTestNames(t, set, path, code)...)
}

// inTestNames scans the names of tests, benchmarks and fuzz tests, word by word.
func inTestNames(t *testing.T, set *token.FileSet, path string, code []byte) (found []finding) {
	t.Helper()
	if !strings.HasSuffix(path, "_test.go") {
		return nil
	}
	tree, err := parser.ParseFile(set, path, code, parser.SkipObjectResolution)
	require.NoError(t, err)
	for _, d := range tree.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Recv != nil || !testName.MatchString(f.Name.Name) {
			continue
		}
		words := strings.ToLower(capital.ReplaceAllString(f.Name.Name, " $0"))
		found = append(found, inText(path, set.Position(f.Pos()).Line, words)...)
	}
	return found
}

var (
	testName = regexp.MustCompile(`^(Test|Benchmark|Fuzz|Example)`)
	capital  = regexp.MustCompile(`[A-Z]`)
	code     = regexp.MustCompile("`[^`]*`")
	target   = regexp.MustCompile(`\]\([^)]*\)`) // of a link
)

// inPage scans a page, without the code in it and the targets of its links.
func inPage(path, text string) (found []finding) {
	lines := bufio.NewScanner(strings.NewReader(text))
	fenced := false
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
		}
		if !fenced {
			found = append(found, inText(path, n, target.ReplaceAllString(code.ReplaceAllString(line, ""), "]"))...)
		}
	}
	return found
}

// inText finds the banned words of a text that begins in a line.
func inText(path string, line int, text string) (found []finding) {
	for _, at := range word.FindAllStringIndex(text, -1) {
		w := text[at[0]:at[1]]
		found = append(found, finding{path, line + strings.Count(text[:at[0]], "\n"), w, advice[strings.ToLower(w)]})
	}
	return found
}

// advice says for each banned word what to write instead; word matches them all.
var advice, word = compile()

func compile() (map[string]string, *regexp.Regexp) {
	advice, words := map[string]string{}, []string(nil)
	for line := range strings.Lines(strings.TrimSpace(banned)) {
		list, instead, _ := strings.Cut(line, ":")
		for w := range strings.FieldsSeq(list) {
			advice[w] = strings.TrimSpace(instead)
			words = append(words, regexp.QuoteMeta(w))
		}
	}
	slices.SortFunc(words, func(a, b string) int { return len(b) - len(a) })
	return advice, regexp.MustCompile(`(?i)\b(?:` + strings.Join(words, "|") + `)\b`)
}

// below reports whether a path is a folder's, or the folder itself.
func below(path, folder string) bool { return path == folder || strings.HasPrefix(path, folder+"/") }
