package nats

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnErrorHasNothingOfAURLThatIsBeforeTheLastAt(t *testing.T) {
	for _, u := range []string{
		"nats://shop:secret@127.0.0.1:4222", "shop:secret@127.0.0.1:4222", "secret@127.0.0.1:4222", "nats//shop:secret@127.0.0.1:4222",
		"nats:/shop:secret@127.0.0.1:4222", "nats:shop:secret@127.0.0.1:4222", "//shop:secret@127.0.0.1:4222", "nats://shop:secret/x@127.0.0.1:4222",
		"nats://shop:a@secret@127.0.0.1:4222", "nats://shop:secret,x@127.0.0.1:4222", "nats://shop:x,secret@127.0.0.1:4222",
		"nats://shop:%zzsecret@127.0.0.1:4222", "nats://127.0.0.1:4222/shop:secret@x", "nats://shop:secret#@127.0.0.1:4222",
		"nats://shop:secret?@127.0.0.1:4222", "nats//shop:x,secret@127.0.0.1:4222,b:4222", "nats://shop:secret@127.0.0.1:4222,nats//b:secret@b",
		"nats://a:secret,x@b:1,nats://c:y@d:2", "nats://a:1,nats://c:secret,secret@d:2", "://shop:secret@127.0.0.1:4222",
	} {
		require.NotContains(t, redacted(u), "secret", u)
	}
	for u, want := range map[string]string{
		"nats://shop:secret@a:1,nats://b:2": "nats://shop:xxxxx@a:1,nats://b:2",
		"a:1":                               "nats://a:1",
		"nats//shop:secret@127.0.0.1:4222":  "xxxxx@127.0.0.1:4222",
		"nats://shop:secret@a:1, nats://shop:secret@b:2":   "nats://shop:xxxxx@a:1,nats://shop:xxxxx@b:2",
		strings.Repeat("nats://shop:secret@a:1,", 2) + "b": "nats://shop:xxxxx@a:1,nats://shop:xxxxx@a:1,nats://b",
	} {
		require.Equal(t, want, redacted(u), u)
	}
}
