package tables

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// module is where the programs are that are measured.
const module = "github.com/golda-dev/golda/examples/"

// programs are programs of this repository, compiled into a directory.
type programs struct{ dir string }

// compile compiles programs of the examples.
func compile(ctx context.Context, names ...string) (*programs, error) {
	dir, err := os.MkdirTemp("", "golda-tables-")
	if err != nil {
		return nil, err
	}
	p := &programs{dir}
	for _, name := range names {
		build := exec.CommandContext(ctx, "go", "build", "-o", p.path(name), module+name) //nolint:gosec // a program of this repository
		if out, err := build.CombinedOutput(); err != nil {
			return nil, errors.Join(fmt.Errorf("go build %s%s: %w; run this in the repository\n%s", module, name, err, out), p.remove())
		}
	}
	return p, nil
}

func (p *programs) path(name string) string { return filepath.Join(p.dir, filepath.Base(name)) }

func (p *programs) remove() error { return os.RemoveAll(p.dir) }

// command returns a command that ends with ctx.
func (p *programs) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, p.path(name), args...) //nolint:gosec // it was just compiled
	cmd.Dir = p.dir
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}
