package prose

import (
	"fmt"
	"go/build"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// rules is how many rules hold in every package, see docs/guarantees.md.
const rules = 18

// promised are the tables of promises in other pages, each by the head of its
// first column. A section of docs/guarantees.md has the rows of each.
var promised = []struct{ section, page, heading, head string }{
	{"Queues on the disk", "durable.md", "What is promised", "event"},
	{"Checkpoints", "durable.md", "Checkpoints with states", "event"},
	{"Letters", "durable.md", "Dead letters", "event"},
	{"Several processes", "scaling.md", "Stages in several processes", "event"},
	{"Several processes", "scaling.md", "Stages in several processes", "a call …"},
}

func TestEachPromiseHasATest(t *testing.T) {
	guarantees := readPage(t, "docs", "guarantees.md")
	promises := 0
	for _, section := range sections(guarantees) {
		for _, row := range rowsOf(section.text) {
			promises++
			assert.Regexp(t, testNamed, row[len(row)-1], "%s: the row %q names no test", section.heading, row[0])
		}
	}
	require.Greater(t, promises, 100)
}

func TestEachRuleIsAmongTheGuarantees(t *testing.T) {
	rows := rowsOf(sectionOf(t, readPage(t, "docs", "guarantees.md"), "The rules"))
	require.Len(t, rows, rules, "a rule is missing, or there is one more: then raise the number here")
	for i, row := range rows {
		assert.Contains(t, row[0], fmt.Sprintf("**%d. ", i+1))
	}
}

func TestEachPromiseOfAnotherPageIsAmongTheGuarantees(t *testing.T) {
	guarantees := readPage(t, "docs", "guarantees.md")
	for _, p := range promised {
		there := tableOf(sectionOf(t, readPage(t, "docs", p.page), p.heading), p.head)
		require.NotEmpty(t, there, "docs/%s has no table of %q under %q", p.page, p.head, p.heading)
		here := tableOf(sectionOf(t, guarantees, p.section), p.head)
		assert.Equal(t, firstCells(there), firstCells(here), "the rows of %q in docs/guarantees.md are not those of docs/%s", p.section, p.page)
	}
}

// A row has the beginning of its invariant, which may be a paragraph.
func TestEachInvariantOfTheEngineIsAmongTheGuarantees(t *testing.T) {
	there := strings.Split(strings.TrimSpace(sectionOf(t, readPage(t, "docs", "architecture.md"), "Invariants")), "\n- ")
	here := tableOf(sectionOf(t, readPage(t, "docs", "guarantees.md"), "Invariants of the engine"), "invariant")
	require.Len(t, here, len(there))
	for i, invariant := range there {
		text := strings.TrimPrefix(strings.Join(strings.Fields(invariant), " "), "- ")
		assert.True(t, strings.HasPrefix(text, here[i][0]), "the row %q in the place of %q", here[i][0], text)
	}
}

func TestEachPublicPackageIsAmongTheGuarantees(t *testing.T) {
	var here []string
	for _, row := range rowsOf(sectionOf(t, readPage(t, "docs", "guarantees.md"), "The packages")) {
		here = append(here, regexp.MustCompile(`\]\(\.\./([^)]+)\)`).FindStringSubmatch(row[0])[1])
	}
	assert.ElementsMatch(t, publicPackages(t), here)
}

// publicPackages returns the directories of the packages that users import.
func publicPackages(t *testing.T) (dirs []string) {
	t.Helper()
	private := []string{"bench", "examples", "docs", "adapter/watermill/brokertest"}
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || !d.IsDir() || path == root:
			return err
		case strings.HasPrefix(d.Name(), ".") || d.Name() == "internal" || d.Name() == "testdata" || d.Name() == "node_modules":
			return filepath.SkipDir
		}
		dir, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		dir = filepath.ToSlash(dir)
		if slices.Contains(private, dir) {
			return filepath.SkipDir
		}
		if pkg, err := build.ImportDir(path, 0); err == nil && pkg.Name != "main" && len(pkg.GoFiles) > 0 {
			dirs = append(dirs, dir)
		}
		return nil
	}))
	return dirs
}

func readPage(t *testing.T, parts ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{root}, parts...)...))
	require.NoError(t, err)
	return string(text)
}

// section is the text below a heading of the second level, up to the next.
type section struct{ heading, text string }

func sections(page string) (found []section) {
	for _, part := range strings.Split("\n"+page, "\n## ")[1:] {
		heading, text, _ := strings.Cut(part, "\n")
		found = append(found, section{heading, text})
	}
	return found
}

func sectionOf(t *testing.T, page, heading string) string {
	t.Helper()
	for _, s := range sections(page) {
		if s.heading == heading {
			return s.text
		}
	}
	require.Fail(t, "there is no section "+heading)
	return ""
}

// rowsOf returns the cells of each row of a text's tables, without their heads.
func rowsOf(text string) (rows [][]string) {
	for _, table := range tablesIn(text) {
		rows = append(rows, table[1:]...)
	}
	return rows
}

// tableOf returns the rows of the table whose first column has a head.
func tableOf(text, head string) [][]string {
	for _, table := range tablesIn(text) {
		if table[0][0] == head {
			return table[1:]
		}
	}
	return nil
}

// ruled matches the line between the head of a table and its rows.
var ruled = regexp.MustCompile(`^[|:\- ]+$`)

// tablesIn returns the rows of each table of a text; the first one is its head.
func tablesIn(text string) (tables [][][]string) {
	inside := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case !strings.HasPrefix(line, "|"):
			inside = false
		case ruled.MatchString(line):
		case inside:
			tables[len(tables)-1] = append(tables[len(tables)-1], cells(line))
		default:
			inside = true
			tables = append(tables, [][]string{cells(line)})
		}
	}
	return tables
}

func cells(line string) (cells []string) {
	for cell := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
		cells = append(cells, strings.TrimSpace(cell))
	}
	return cells
}

func firstCells(rows [][]string) (first []string) {
	for _, row := range rows {
		first = append(first, row[0])
	}
	return first
}
