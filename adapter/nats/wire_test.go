package nats

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/coordination/transport"
)

func TestACallAndItsResultComeAsTheyWereSent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Payload{
			Type:    rapid.String().Draw(t, "type"),
			Version: rapid.Int().Draw(t, "version"),
			Data:    rapid.SliceOf(rapid.Byte()).Draw(t, "data"),
		}
		text := rapid.String().Draw(t, "text")
		call := called{p, text, rapid.String().Draw(t, "from"), rapid.Uint64().Draw(t, "call")}
		q, err := decodeCalled(call.encode())
		require.NoError(t, err)
		require.Equal(t, call, q)
		a, err := decodeReply(reply{p, text}.encode())
		require.NoError(t, err)
		require.Equal(t, reply{p, text}, a)
	})
}

// FuzzCall decodes bytes that are no call: the error is the only answer.
func FuzzCall(f *testing.F) {
	whole := called{Payload{"shop.Order", 2, []byte(`{"id":1}`)}, "A.B", "node", 300}.encode()
	for n := range whole {
		f.Add([]byte(whole[:n]))
	}
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, sent []byte) {
		q, err := decodeCalled(transport.Encoded(sent))
		if err != nil {
			require.Zero(t, q)
			return
		}
		again, err := decodeCalled(q.encode())
		require.NoError(t, err)
		require.Equal(t, q, again)
	})
}
