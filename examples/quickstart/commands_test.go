package main

import (
	"context"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/examples/internal/page"
)

// commandWithin is how long a command of the README may take, with what it has to compile.
const commandWithin = 3 * time.Minute

// Each command is run as it is there, except that of make only the target is looked for, and a benchmark runs for a moment.
func TestTheCommandsOfTheReadmeWork(t *testing.T) {
	commands := commandsOf(page.Read(t, root, "README.md"))
	require.GreaterOrEqual(t, len(commands), 4, "README.md lost its commands, or they are not in blocks of sh any more")
	for _, command := range commands {
		t.Run(command, func(t *testing.T) { assert.NoError(t, try(t, command)) })
	}
}

func TestACommandThatDoesNotWorkIsFound(t *testing.T) {
	for _, command := range []string{
		"go get example.org/another", "go run ./examples/none", "make nothing", "go test -run '^$' -bench 'NoSuchBenchmark' ./stage", "rm -r examples",
	} {
		t.Run(command, func(t *testing.T) { assert.Error(t, try(t, command)) })
	}
	page := "```sh\nmake a   # b\n\n```\n```go\nmake b\n```\n```sh\nmake c\n```\n"
	assert.Equal(t, []string{"make a", "make c"}, commandsOf(page))
}

// commandsOf returns the lines of a page's blocks of shell commands, without comments.
func commandsOf(page string) (commands []string) {
	for _, block := range regexp.MustCompile("(?ms)^```sh\n(.*?)^```$").FindAllStringSubmatch(page, -1) {
		for line := range strings.Lines(block[1]) {
			command, _, _ := strings.Cut(line, " #")
			if command = strings.TrimSpace(command); command != "" {
				commands = append(commands, command)
			}
		}
	}
	return commands
}

// commandError is a command that does not do what the README says.
type commandError string

func (e commandError) Error() string { return string(e) }

// try runs a command.
func try(t *testing.T, command string) error {
	t.Helper()
	verb, rest, _ := strings.Cut(command, " ")
	switch {
	case strings.HasPrefix(command, "go get "):
		_, err := shell(t, "go list -m "+strings.TrimPrefix(command, "go get "))
		return err
	case strings.HasPrefix(command, "go run "):
		_, err := shell(t, command)
		return err
	case strings.HasPrefix(command, "go test "):
		short := regexp.MustCompile(`-count \d+`).ReplaceAllString(strings.TrimPrefix(command, "go test "), "-count 1")
		out, err := shell(t, "go test -benchtime 1x "+short)
		if err == nil && !strings.Contains(out, "\nBenchmark") {
			return commandError("it runs no benchmark:\n" + out)
		}
		return err
	case verb == "make":
		_, err := shell(t, "make -n "+rest)
		return err
	default:
		return commandError("the test does not know how to run it: " + command)
	}
}

// shell runs a command in the root of the module and returns its output. What it writes to standard error is the error's.
func shell(t *testing.T, command string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), commandWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.Dir, cmd.WaitDelay = root, time.Second
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return string(out), commandError(command + ": " + err.Error() + "\n" + complaint.String())
	}
	return string(out), nil
}
