package stagehttp_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	stagehttp "github.com/golda-dev/golda/adapter/http"
)

func TestPostRefusesAURLAndDoesNotShowIt(t *testing.T) {
	for _, url := range []string{"http://user:SECRET PW@host/", "", "::bad", "/path?SECRET", "host:80/SECRET", "http:///SECRET"} {
		func() {
			defer func() {
				text := fmt.Sprint(recover())
				require.Contains(t, text, "stagehttp: Post: the URL ", url)
				require.NotContains(t, text, "SECRET")
			}()
			stagehttp.Post[int](nil, url)
		}()
	}
}

func TestTheErrorOfARequestThatCouldNotBeSentHasNoQuery(t *testing.T) {
	err := stagehttp.Post[int](nil, "http://127.0.0.1:1/orders?token=SECRET")(t.Context(), 1)
	require.ErrorContains(t, err, "http://127.0.0.1:1/orders")
	require.NotContains(t, err.Error(), "SECRET")
	require.True(t, stagehttp.Temporary(err))
}
