package watermill

import (
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"
)

func TestTheErrorOfAMessageThatIsNotTheCommandDoesNotShowItsNumbers(t *testing.T) {
	m := message.NewMessage("1", []byte(`{"Card":4111111111111111}`))
	_, err := fromJSON[struct{ Card int8 }](m)
	require.ErrorContains(t, err, "number")
	require.ErrorContains(t, err, "Card")
	require.NotContains(t, err.Error(), "4111")
}
