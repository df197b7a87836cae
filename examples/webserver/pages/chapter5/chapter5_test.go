package chapter5

import (
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/stage"
)

func TestARequestWhosePageIsLostIsAnsweredOnce(t *testing.T) {
	for name, lost := range map[string]func(*request) any{
		"before the pages": func(r *request) any { return r },
		"with one page":    func(r *request) any { return half{r, dynamicHalf, "text"} },
	} {
		t.Run(name, func(t *testing.T) {
			client, conn := net.Pipe()
			answers := make(chan string, 1)
			go func() {
				b, _ := io.ReadAll(client)
				answers <- string(b)
			}()
			r := &request{conn: conn}
			var p Server
			p.lost(stage.DeadLetter{Command: lost(r)})
			require.Contains(t, <-answers, "HTTP/1.1 500 Internal Server Error")
			require.EqualValues(t, 1, p.failed.Load())
			require.ErrorIs(t, r.answer(http.StatusOK, "late"), errEnded)
		})
	}
}
