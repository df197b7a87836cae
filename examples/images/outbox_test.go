package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPutReplacesAFileAndLeavesNoOtherFile(t *testing.T) {
	dir, box := t.TempDir(), &outbox{}
	path := filepath.Join(dir, "a")
	require.NoError(t, box.put(path, []byte("old and long")))
	require.NoError(t, box.put(path, []byte("new")))
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "new", string(data))
	assert.Equal(t, []string{"a"}, names(t, dir))
}

func TestAFailedPutLeavesNoFile(t *testing.T) {
	dir, box := t.TempDir(), &outbox{}
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "a", "b"), 0o777))
	require.Error(t, box.put(filepath.Join(dir, "a"), []byte("x")))
	assert.Equal(t, []string{"a"}, names(t, dir))
	require.Error(t, box.put(filepath.Join(dir, "none", "a"), nil))
}

func TestAnAbandonedOutboxRemovesPartialFiles(t *testing.T) {
	dir, box := t.TempDir(), &outbox{}
	half, err := box.create(dir)
	require.NoError(t, err)
	defer half.Close()
	require.Len(t, names(t, dir), 1)
	box.abandon()
	assert.Empty(t, names(t, dir))
	require.ErrorIs(t, box.put(filepath.Join(dir, "a"), nil), errAbandoned)
	assert.Empty(t, names(t, dir))
}
