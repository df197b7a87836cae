package transport_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/coordination/transport"
)

// Package json would write U+FFFD in place of each byte that is not UTF-8.
func TestAStringThatJSONWouldChangeIsNotEncoded(t *testing.T) {
	type parcel struct {
		Name string
		To   []string
	}
	for path, body := range map[string]any{
		"string":                     "caf\xe9",
		"transport_test.parcel.Name": parcel{Name: "caf\xe9"},
		"transport_test.parcel.To":   parcel{To: []string{"Köln", "caf\xe9"}},
	} {
		_, err := transport.Encode(&transport.Message{Body: body})
		require.ErrorIs(t, err, transport.ErrEncoding)
		require.ErrorContains(t, err, path)
	}
	data, err := transport.Encode(&transport.Message{Body: parcel{Name: "café \ufffd"}})
	require.NoError(t, err)
	m, err := transport.Decode(data)
	require.NoError(t, err)
	require.JSONEq(t, `{"Name": "café \ufffd", "To": null}`, string(m.Body.(transport.Encoded)))
}
