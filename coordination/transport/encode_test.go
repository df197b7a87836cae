package transport_test

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

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

func TestHeadersOfAnyFormAreReadOrRefused(t *testing.T) {
	whole := &transport.Message{Kind: 1, Process: "P", Method: "m", Headers: map[string]string{"a": "1", "": "", "c": strings.Repeat("x", 300)}, Body: transport.Encoded("7")}
	data, err := transport.Encode(whole)
	require.NoError(t, err)
	m, err := transport.Decode(data)
	require.NoError(t, err)
	require.Equal(t, whole, m)
	body := len(data) - 1
	for n := range body {
		_, err := transport.Decode(data[:n])
		require.Error(t, err, n)
	}
	rapid.Check(t, func(t *rapid.T) {
		b := slices.Clone(data)
		b[rapid.IntRange(0, len(b)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
		if m, err := transport.Decode(b); err == nil && m.Headers != nil {
			size := 0
			for name, value := range m.Headers {
				size += len(name) + len(value)
			}
			require.LessOrEqual(t, size, len(b))
		}
	})
	_, err = transport.Encode(&transport.Message{Headers: map[string]string{"a": strings.Repeat("x", 32<<10)}})
	require.ErrorIs(t, err, transport.ErrEncoding)
	large := append([]byte{1, 0x81, 0, 0, 0, 0}, binary.AppendUvarint(nil, 40<<10)...)
	_, err = transport.Decode(append(large, make([]byte, 41<<10)...))
	require.Error(t, err)
}
