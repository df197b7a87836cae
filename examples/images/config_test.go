package main

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/examples/internal/show"
)

func TestBadInputIsRefusedInOneLineBeforeAnythingStarts(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o666))
	locked := filepath.Join(dir, "locked")
	require.NoError(t, os.Mkdir(locked, 0o555))
	empty := filepath.Join(dir, "empty")
	require.NoError(t, os.Mkdir(empty, 0o777))
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()

	rows := []struct{ args, says string }{
		{"-in " + dir + "/none", "no such file"},
		{"-in " + file, "not a directory"},
		{"-in " + empty, "there are no files in"},
		{"-in=", "-in: a directory is needed"},
		{"-policy nope", "known are backlog, "},
		{"-policies seda,nope", "known are backlog, "},
		{"-policies seda,", `unknown policy ""`},
		{"-policies=", "at least one policy"},
		{"-policies seda,cohort,seda", "seda is named twice"},
		{"-policies seda -policy seda", "one of the two"},
		{"-policies seda -out " + locked, "read-only"},
		{"-policies seda -metrics nowhere", "-metrics"},
		{"-captchas " + dir + "/new/one -out " + locked, "read-only"},
		{"-n 0", "at least 1 image"},
		{"-n -1", "at least 1 image"},
		{"-n 0 -in " + dir, "at least 1 image"},
		{"-n many", `"many"`},
		{"-workers 0", "at least 1 worker"},
		{"-max-pixels 0", "-max-pixels 0: 1 to"},
		{"-max-pixels 9999999999", "1 to 1073741824 pixels"},
		{"-size huge", "small, uniform and pareto"},
		{"-crash -0.1", "from 0 to 1"},
		{"-crash 1.1", "from 0 to 1"},
		{"-crash NaN", "from 0 to 1"},
		{"-seed -1", "seed"},
		{"-out " + locked, "read-only"},
		{"-out " + locked + "/below/it", "read-only"},
		{"-out " + file, "not a directory"},
		{"-out " + file + "/below", "not a directory"},
		{"-captchas " + locked, "read-only"},
		{"-in " + dir + " -out " + dir, "the same directory"},
		{"-metrics " + taken.Addr().String(), "in use"},
		{"-metrics nowhere", "-metrics"},
		{"-dashboard 0.0.0.0:0", "an address of this machine"},
		{"-unknown", "not defined: -unknown; see -help"},
		{"stray", `"stray"`},
	}
	for _, row := range rows {
		t.Run(strings.ReplaceAll(row.args, dir, "DIR"), func(t *testing.T) {
			p := newPlace(t)
			done := p.run(t.Context(), strings.Fields(row.args)...)
			assert.Equal(t, show.StatusUsage, done.status)
			assert.Empty(t, done.stdout)
			assert.Contains(t, done.stderr, row.says)
			assert.True(t, strings.HasPrefix(done.stderr, "images: "), done.stderr)
			assert.Equal(t, 1, strings.Count(done.stderr, "\n"), "one line: %q", done.stderr)
			assert.NoDirExists(t, p.out)
			assert.NoDirExists(t, p.captchas)
			assert.NoDirExists(t, filepath.Join(dir, "new"))
		})
	}
}

func TestAllFaultsAreReportedAtOnce(t *testing.T) {
	done := newPlace(t).run(t.Context(), "-n", "0", "-workers", "0", "-policy", "nope")
	assert.Equal(t, show.StatusUsage, done.status)
	assert.Equal(t, 3, strings.Count(done.stderr, "\n"), done.stderr)
}

func TestHelpIsNoError(t *testing.T) {
	done := newPlace(t).run(t.Context(), "-help")
	assert.Equal(t, show.StatusOK, done.status)
	assert.Contains(t, done.stdout, "-crash")
	assert.Empty(t, done.stderr)
}

func TestNDefaultsToAllFilesOfADirectory(t *testing.T) {
	c, err := parse([]string{"-in", t.TempDir()}, &bytes.Buffer{})
	require.NoError(t, err)
	assert.Zero(t, c.n)
	c, err = parse(nil, &bytes.Buffer{})
	require.NoError(t, err)
	assert.Equal(t, defaultDrawn, c.n)
}

func TestExistingDirectoriesStayWhenAnotherIsRefused(t *testing.T) {
	p, locked := newPlace(t), filepath.Join(t.TempDir(), "locked")
	require.NoError(t, os.Mkdir(locked, 0o555))
	require.NoError(t, os.Mkdir(p.captchas, 0o777))
	assert.Equal(t, show.StatusUsage, p.run(t.Context(), "-out", locked).status)
	assert.Empty(t, names(t, p.captchas))
}

func TestEachPolicyHasADirectoryOfItsOwn(t *testing.T) {
	owners := map[string]string{}
	for _, name := range policy.Names() {
		pol, err := policy.ByName(name)
		require.NoError(t, err)
		dir := config{out: "out"}.outOf(pol)
		assert.Empty(t, owners[dir], name)
		assert.NotContains(t, dir, ":")
		owners[dir] = name
	}
	assert.Equal(t, "seda:cruz", owners[filepath.Join("out", "seda_cruz")])
}

func TestOutNames(t *testing.T) {
	rows := []struct{ name, in, want string }{
		{"the base name", "a.jpg b.jpeg c", "a.png b.png c.png"},
		{"shared ones keep their extension", "a.gif a.jpg b.jpg", "a.gif.png a.jpg.png b.png"},
		{"a png among them, too", "a.jpg a.png", "a.jpg.png a.png.png"},
		{"without extension", "a a.jpg", "a.png a.jpg.png"},
		{"upper case makes no difference", "A.jpg a.gif", "A.jpg.png a.gif.png"},
		{"a longer name meets a short one", "a.gif a.jpg a.jpg.gif", "a.gif.png a.jpg.png a.jpg.gif.png"},
		{"dots within", "a.b.jpg a.c.jpg", "a.b.png a.c.png"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			assert.Equal(t, strings.Fields(row.want), outNames(strings.Fields(row.in)))
		})
	}
}
