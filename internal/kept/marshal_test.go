package kept

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const notUTF8 = "caf\xe9"

type (
	textual  string // writes itself as text
	ofAnyKey map[string]int
	embedded struct{ Body string }
	hook     struct {
		embedded

		ID      int
		Header  map[string][]string
		Bytes   []byte
		Raw     json.RawMessage
		Of      *hook
		Any     any
		Keys    ofAnyKey
		Text    textual
		Quoted  string `json:",string"`
		Ignored string `json:"-"`
		hidden  string //nolint:unused // JSON ignores it
	}
)

func (x textual) MarshalText() ([]byte, error)  { return []byte(x), nil }
func (x *textual) UnmarshalText(b []byte) error { *x = textual(b); return nil }

func TestAStringThatIsNotUTF8IsNotMarshalled(t *testing.T) {
	for path, v := range map[string]any{
		"kept.hook.embedded.Body": hook{embedded: embedded{notUTF8}},
		"kept.hook.Header[][]":    hook{Header: map[string][]string{"a": {"b", notUTF8}}},
		"kept.hook.Of.Of.Quoted":  hook{Of: &hook{Of: &hook{Quoted: notUTF8}}},
		"kept.hook.Any[]":         hook{Any: [1]string{notUTF8}},
		"a key of kept.hook.Keys": hook{Keys: ofAnyKey{notUTF8: 1}},
		"kept.hook.Text":          hook{Text: notUTF8},
		"*kept.hook.Text":         &hook{Text: notUTF8},
		"string":                  notUTF8,
		"[]kept.hook[].Quoted":    []hook{{Quoted: notUTF8}},
	} {
		data, err := Marshal(v)
		require.ErrorContains(t, err, "JSON does not keep "+path+":")
		assert.Nil(t, data)
	}
}

func TestWhatIsUTF8IsMarshalledAsByPackageJSON(t *testing.T) {
	for _, v := range []any{
		nil, "\ufffd", `\ufffd`, []byte(notUTF8), hook{},
		hook{Bytes: []byte(notUTF8), Ignored: notUTF8, hidden: notUTF8, Raw: json.RawMessage(`"\ufffd"`), Any: `\ufffd`},
		hook{Raw: json.RawMessage(`["\ufffd"]`), Text: `\ufffd`, Header: map[string][]string{`\ufffd`: {`\ufffd`}}},
	} {
		want, err := json.Marshal(v)
		require.NoError(t, err)
		got, err := Marshal(v)
		require.NoError(t, err)
		assert.Equal(t, string(want), string(got))
	}
	_, err := Marshal(make(chan int))
	require.Error(t, err)
}
