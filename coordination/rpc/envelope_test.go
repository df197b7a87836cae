package rpc

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// Package json would write U+FFFD in place of each byte that is not UTF-8.
func TestArgumentsThatJSONWouldChangeAreNotEncoded(t *testing.T) {
	for path, args := range map[string]any{"string": "caf\xe9", "Name": struct{ Name string }{"caf\xe9"}} {
		var e envelope
		e.Request.Args = args
		_, err := json.Marshal(e)
		require.ErrorContains(t, err, path)
		require.ErrorContains(t, err, "is not UTF-8")
	}
}
