package behaviour_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// program is a behaviour that forwards WHAT to a stage for strings.
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

// Each row compiles the program with another line in place of WHAT.
func TestForwardingAWrongTypeDoesNotCompile(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the compiler")
	}
	rows := map[string]struct{ line, message string }{
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
			output, err := compile(t, strings.Replace(program, "WHAT", row.line, 1))
			if row.message == "" {
				require.NoError(t, err, output)
				return
			}
			require.Error(t, err)
			require.Contains(t, output, row.message)
			require.Contains(t, output, "main.go:15", "the message names the line of the row")
		})
	}
}

// compile builds a program that lies outside the module. The build runs inside the module, so that it finds the
// module's packages and needs no network.
func compile(t *testing.T, source string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "main.go")
	require.NoError(t, os.WriteFile(file, []byte(source), 0o600))
	cmd := exec.Command("go", "build", "-o", os.DevNull, file)
	output, err := cmd.CombinedOutput()
	return string(output), err
}
