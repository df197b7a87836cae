package nats_test

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/stage"
)

// smallDisk mounts a disk of some bytes, which is full when fill has returned.
func smallDisk(t *testing.T, size string) (dir string, fill func()) {
	t.Helper()
	dir = t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skip("no disk can be mounted here: ", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir, func() {
		f, err := os.Create(filepath.Join(dir, "filler"))
		require.NoError(t, err)
		for err == nil {
			_, err = f.Write(make([]byte, 4096))
		}
		require.ErrorIs(t, err, syscall.ENOSPC)
		require.NoError(t, f.Close())
	}
}

func TestAnInletThatIsMadeOnAFullDiskIsFull(t *testing.T) {
	dir, fill := smallDisk(t, "4m")
	conn, err := nats.Embed(filepath.Join(dir, "store"), nats.Store{MaxBytes: 1 << 30})
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	fill()
	_, err = nats.NewInlet(t.Context(), conn, "numbers", nats.Options[int]{})
	require.ErrorIs(t, err, nats.ErrFull)
	_, overload := stage.Overloaded(err)
	require.True(t, overload)
}

// A disk becomes full while messages are handled. The server can note no more acknowledgements then. What is handled twice after the restart is what was
// in flight, and what the server had confirmed and not written yet; the inlet hands on nothing more.
func TestNoMoreThanWasInFlightIsHandledTwiceAfterADiskWasFull(t *testing.T) {
	dir, fill := smallDisk(t, "16m")
	store := filepath.Join(dir, "store")
	conn, err := nats.Embed(store, nats.Store{MaxBytes: 1 << 30})
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	const n = 5000
	o := nats.Options[int]{MaxInFlight: 100}
	numbers := inlet(t, conn, "numbers", o)
	publish(t, numbers, n)
	var done tally
	do := func() *stage.Flow[int, struct{}] {
		return stage.Sink("do", func(_ context.Context, k int) error { done.add(k); return nil }, stage.Workers(1, 1))
	}
	p := start(t, numbers, do())
	eventually(t, "some are done", func() bool { return done.len() > n/10 })
	fill()
	eventually(t, "the feed is away", func() bool { return p.Snapshot().Feeds[0].State == "away" })
	require.ErrorIs(t, p.Snapshot().Feeds[0].Err, nats.ErrFull)
	require.NoError(t, p.Stop(t.Context()))
	require.NoError(t, conn.Close(t.Context()))
	require.NoError(t, os.Remove(filepath.Join(dir, "filler")))

	again := inlet(t, embed(t, store, nats.Store{}), "numbers", o)
	start(t, again, do())
	eventually(t, "all are done", func() bool { return done.len() == n && status(t, again).Pending == 0 })
	twice := 0
	for _, times := range done.of {
		twice += times - 1
	}
	t.Log(twice, "were handled twice")
	require.LessOrEqual(t, twice, 2*o.MaxInFlight)
}
