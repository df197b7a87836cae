package nats_test

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/stage"
)

func TestErrorsOfConnectHaveNoPasswordsAndTokens(t *testing.T) {
	for _, url := range []string{
		"user:sesame@127.0.0.1:1", "sesame@127.0.0.1:1", "nats://user:sesame@127.0.0.1:1", "nats://sesame@127.0.0.1:1",
		"user:sesame@127.0.0.1:1,sesame@127.0.0.1:2", "nats://user:sesame@127.0.0.1:x", "user:sesame@[::1", "user:sesame%zz@127.0.0.1:1",
	} {
		_, err := nats.Connect(t.Context(), url)
		require.ErrorContains(t, err, "nats: connect to ")
		require.NotContains(t, err.Error(), "sesame")
	}
}

// A user that may subscribe to _INBOX.> only reads nothing that others are answered.
func TestAUserHasAnInboxOfItsOwn(t *testing.T) {
	own := &server.Permissions{
		Publish: &server.SubjectPermission{Allow: []string{">"}}, Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX_shop.>", "golda.>"}},
	}
	s := serve(t, &server.Options{Users: []*server.User{
		{Username: "shop", Password: "b", Permissions: own},
		{Username: "spy", Password: "c", Permissions: &server.Permissions{Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>", "_INBOX_spy.>"}}}},
	}})
	spy, err := natsgo.Connect(s.ClientURL(), natsgo.UserInfo("spy", "c"))
	require.NoError(t, err)
	defer spy.Close()
	read, err := spy.SubscribeSync("_INBOX.>")
	require.NoError(t, err)
	require.NoError(t, spy.Flush())
	conn, err := nats.Connect(t.Context(), s.ClientURL(), natsgo.UserInfo("shop", "b"))
	require.NoError(t, err)
	defer shut(t, conn)
	numbers := inlet(t, conn, "numbers", nats.Options[int]{UntilEmpty: true})
	publish(t, numbers, 20)
	var done tally
	run(t, numbers, stage.Sink("do", func(_ context.Context, k int) error { done.add(k); return nil }))
	require.Equal(t, 20, done.len())
	require.NoError(t, spy.Flush())
	_, err = read.NextMsg(10 * time.Millisecond)
	require.ErrorIs(t, err, natsgo.ErrTimeout)
}

func TestALockIsNotLeftByRemovingItsFileAndFollowsNoLink(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a file that is open is not removed there, and links need rights")
	}
	dir := t.TempDir()
	conn := embed(t, dir, nats.Store{})
	lock := filepath.Join(dir, "golda.lock")
	require.NoError(t, os.Remove(lock))
	_, err := nats.Embed(dir, nats.Store{})
	require.ErrorIs(t, err, nats.ErrLocked)
	shut(t, conn)
	precious := filepath.Join(t.TempDir(), "precious")
	require.NoError(t, os.WriteFile(precious, []byte("precious"), 0o600))
	_ = os.Remove(lock)
	require.NoError(t, os.Symlink(precious, lock))
	_, err = nats.Embed(dir, nats.Store{})
	require.Error(t, err)
	text, err := os.ReadFile(precious)
	require.NoError(t, err)
	require.Equal(t, "precious", string(text))
}

func TestPublishOnceSaysWhetherTheServerKnewTheID(t *testing.T) {
	numbers := inlet(t, embed(t, t.TempDir(), nats.Store{}), "numbers", nats.Options[int]{})
	for _, want := range []bool{true, false} {
		added, err := numbers.PublishOnce(t.Context(), "a", 1)
		require.NoError(t, err)
		require.Equal(t, want, added)
	}
}
