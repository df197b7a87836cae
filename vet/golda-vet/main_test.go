package main

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The program is built, and run by go vet and by itself, on a package with mistakes.
func TestGoldaVetIsATool(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds a program")
	}
	tool := filepath.Join(t.TempDir(), "golda-vet")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", tool, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	for name, args := range map[string][]string{
		"go vet":   {"go", "vet", "-vettool=" + tool, "../testdata/submit"},
		"itself":   {tool, "../testdata/submit"},
		"one only": {tool, "-goldasubmit", "../testdata/submit"},
	} {
		out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput()
		require.Error(t, err, name)
		require.Contains(t, string(out), "a.go:12:2: the error of Submit is ignored: a command that is refused is lost", name)
	}
	out, err = exec.CommandContext(t.Context(), tool, "-goldaport", "../testdata/submit").CombinedOutput()
	require.NoError(t, err, "%s", out)
}
