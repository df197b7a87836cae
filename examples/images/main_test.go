package main

import (
	"bytes"
	"context"
	"encoding/json"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/golda-dev/golda/examples/images/captcha"
	"github.com/golda-dev/golda/examples/internal/show"
)

// A comparison runs the program that it is part of, so the test binary is that program, too.
func TestMain(m *testing.M) {
	if isChild() {
		main()
	}
	goleak.VerifyTestMain(m)
}

// place is the directories with which a test runs the program; they do not exist yet.
type place struct{ in, out, captchas string }

func newPlace(t *testing.T) place {
	t.Helper()
	dir := t.TempDir()
	return place{filepath.Join(dir, "in"), filepath.Join(dir, "out"), filepath.Join(dir, "captchas")}
}

// ran is the result of a run of the program.
type ran struct {
	status         int
	stdout, stderr string
}

// run runs the program with the directories for output, and the arguments.
func (p place) run(ctx context.Context, args ...string) ran {
	var stdout, stderr bytes.Buffer
	args = append([]string{"-out", p.out, "-captchas", p.captchas}, args...)
	status := run(ctx, args, &outbox{}, &stdout, &stderr)
	return ran{status, stdout.String(), stderr.String()}
}

// report reads the one object on stdout.
func (r ran) report(t *testing.T) report {
	t.Helper()
	all := r.reports(t)
	require.Len(t, all, 1)
	return all[0]
}

// reports reads the objects on stdout, one a line.
func (r ran) reports(t *testing.T) (all []report) {
	t.Helper()
	for line := range strings.Lines(r.stdout) {
		var got report
		d := json.NewDecoder(strings.NewReader(line))
		d.DisallowUnknownFields()
		require.NoError(t, d.Decode(&got), "stdout: %s, stderr: %s", r.stdout, r.stderr)
		require.False(t, d.More(), "more than one object: %s", line)
		all = append(all, got)
	}
	return all
}

// fill puts files into the input directory.
func (p place) fill(t *testing.T, files map[string][]byte) {
	t.Helper()
	require.NoError(t, os.MkdirAll(p.in, 0o777))
	for name, data := range files {
		require.NoError(t, os.WriteFile(filepath.Join(p.in, name), data, 0o666))
	}
}

// names lists a directory, including hidden files.
func names(t *testing.T, dir string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

// requireWhole checks that a directory holds n complete PNG files and nothing else.
func requireWhole(t *testing.T, dir string, n int) {
	t.Helper()
	list := names(t, dir)
	require.Len(t, list, n)
	for _, name := range list {
		f, err := os.Open(filepath.Join(dir, name))
		require.NoError(t, err)
		_, err = png.Decode(f)
		assert.NoError(t, err, name)
		require.NoError(t, f.Close())
	}
}

// drawn returns a captcha.
func drawn(t *testing.T, i int) []byte {
	t.Helper()
	p, err := captcha.NewPainter()
	require.NoError(t, err)
	file, err := p.JPEG(1, captcha.Small, i)
	require.NoError(t, err)
	return file
}

func TestTheFirstSignalPrintsALine(t *testing.T) {
	var stderr bytes.Buffer
	signals, finish, abandon := make(chan os.Signal), make(chan struct{}), make(chan struct{})
	go interrupts(signals, &stderr, func() { close(finish) }, func() { close(abandon) })
	signals <- os.Interrupt
	<-finish
	signals <- os.Interrupt
	<-abandon
	require.Equal(t, "\nimages: interrupted; the images under way are finished; Ctrl-C once more ends at once\n", stderr.String())
}

func TestAnImageWithTooManyPixelsIsRefusedAndTheOptionNamed(t *testing.T) {
	p := newPlace(t)
	p.fill(t, map[string][]byte{"small.png": blank(t, 10), "large.png": blank(t, 11)})
	done := p.run(t.Context(), "-in", p.in, "-max-pixels", "100")
	require.Equal(t, show.StatusFailed, done.status)
	require.Contains(t, done.stderr, "large.png: image: 11×11 pixels are too many, at most 100 are taken; see -max-pixels")
	require.Equal(t, []string{"small.png"}, names(t, p.out))
}
