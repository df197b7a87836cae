package behaviour_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// program is a behaviour that forwards WHAT to a stage that takes strings.
const program = `package main

import (
	"context"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/stage"
)

func main() {
	port := behaviour.NewPort[string]("out")
	save := stage.New("save", behaviour.Func[string](
		func(context.Context, string) behaviour.Outcome { return behaviour.OK(nil) }))
	_, _ = port, save
	WHAT
}
`

// The compiler is run on programs that differ in one line.
func TestForwardingAWrongTypeDoesNotCompile(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the compiler")
	}
	rows := map[string]struct{ line, complaint string }{
		"a string to a stage compiles":     {`_ = behaviour.Forward(save, "a")`, ""},
		"a string to a port compiles":      {`_ = behaviour.Forward(port, "a")`, ""},
		"a number to a stage does not":     {`_ = behaviour.Forward(save, 1)`, "cannot use"},
		"a number to a port does not":      {`_ = behaviour.Forward(port, 1)`, "cannot use"},
		"emitting a number does not":       {`_ = behaviour.Emit(context.Background(), save, 1)`, "cannot use"},
		"submitting a number does not":     {`_ = save.Submit(context.Background(), 1)`, "cannot use"},
		"a stage for numbers does not fit": {`_ = port.Connect(stage.New[int]("n", nil))`, "does not implement"},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			said, err := compile(t, strings.Replace(program, "WHAT", row.line, 1))
			if row.complaint == "" {
				require.NoError(t, err, said)
				return
			}
			require.Error(t, err)
			require.Contains(t, said, row.complaint)
			require.Contains(t, said, "main.go:15", "the complaint is about the line in question")
		})
	}
}

// compile builds a program that lies outside the module but is built from
// inside it, so that it sees the module's packages and needs no network.
func compile(t *testing.T, source string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "main.go")
	require.NoError(t, os.WriteFile(file, []byte(source), 0o600))
	cmd := exec.Command("go", "build", "-o", os.DevNull, file)
	said, err := cmd.CombinedOutput()
	return string(said), err
}
