package main

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheWordsThatMayFollowAreListed(t *testing.T) {
	for words, want := range map[string][]string{
		"":                {"top", "letters", "completion", "--token"},
		"letters":         {"list", "retry", "--who"},
		"letters show":    {"--json"},
		"letters show u":  {"dead", "quarantine", "failures"},
		"completion":      {"bash", "zsh", "fish"},
		"pause url":       {"--help"},
		"top -once":       {"--json", "--nats"},
		"no such command": {"top"},
	} {
		args := append([]string{"complete", "--"}, strings.Fields(words)...)
		got := strings.Fields(golda(t, args...))
		require.Subset(t, got, want, words)
		require.NotContains(t, got, "complete", "it is for the scripts")
	}
}

func TestTheScriptsOfTheShellsAreRight(t *testing.T) {
	for shell := range scripts {
		script := golda(t, "completion", shell)
		require.Contains(t, script, "golda complete -- ")
		path, err := exec.LookPath(shell)
		if err != nil {
			continue // it is not installed
		}
		check := exec.CommandContext(t.Context(), path, "-n")
		check.Stdin = strings.NewReader(script)
		out, err := check.CombinedOutput()
		require.NoError(t, err, "%s: %s", shell, out)
	}
	require.Contains(t, fails(t, 2, "completion", "ksh"), "must be one of")
}

// Bash completes a word by the script: golda is a function that is the program's answer.
func TestBashCompletesByTheScript(t *testing.T) {
	path, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash")
	}
	script := golda(t, "completion", "bash") + `
golda() { printf '%s\n' ` + strings.Join(strings.Fields(golda(t, "complete", "--", "letters")), " ") + `; }
COMP_WORDS=(golda letters re) COMP_CWORD=2
_golda
echo "${COMPREPLY[@]}"
`
	out, err := exec.CommandContext(t.Context(), path, "-c", script).CombinedOutput()
	require.NoError(t, err, string(out))
	require.Equal(t, "retry\n", string(out))
}
