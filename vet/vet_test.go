package vet_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/analysistest"
	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/packages"

	"github.com/golda-dev/golda/vet"
)

// The packages of testdata use the real packages of the module, and their comments say what is reported. All analyzers run on all of them.
func TestAnAnalyzerReportsTheMistakesAndNothingElse(t *testing.T) {
	root, err := filepath.Abs(".")
	require.NoError(t, err)
	var dirs []string
	for _, a := range vet.Analyzers {
		dirs = append(dirs, "./testdata/"+strings.TrimPrefix(a.Name, "golda"))
	}
	analysistest.Run(t, root, &analysis.Analyzer{ // packages are loaded once
		Name: "golda", Doc: "all analyzers",
		Run: func(p *analysis.Pass) (any, error) {
			for _, a := range vet.Analyzers {
				if _, err := a.Run(p); err != nil {
					return nil, err
				}
			}
			return nil, nil
		},
	}, dirs...)
}

// The examples are what users copy.
func TestTheExamplesHaveNoMistake(t *testing.T) {
	if testing.Short() {
		t.Skip("it loads all examples")
	}
	pkgs, err := packages.Load(&packages.Config{Mode: packages.LoadAllSyntax, Dir: "../examples"}, "./...")
	require.NoError(t, err)
	require.Zero(t, packages.PrintErrors(pkgs))
	graph, err := checker.Analyze(vet.Analyzers, pkgs, nil)
	require.NoError(t, err)
	found := 0
	for action := range graph.All() {
		require.NoError(t, action.Err, action)
		if !action.IsRoot {
			continue
		}
		found++
		for _, d := range action.Diagnostics {
			t.Errorf("%v: %s", action.Package.Fset.Position(d.Pos), d.Message)
		}
	}
	require.Greater(t, found, len(vet.Analyzers)*10)
}

func TestAnAnalyzerIsValid(t *testing.T) {
	require.NoError(t, analysis.Validate(vet.Analyzers))
}
