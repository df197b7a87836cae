package requests_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/coordination/guard"
	"github.com/golda-dev/golda/internal/requests"
)

func request(method string) *requests.Request {
	return &requests.Request{Request: guard.Request{Method: method}}
}

func TestARequestThatIsReturnedComesFirstInItsLine(t *testing.T) {
	q := requests.New()
	a, b := request("m"), request("m")
	q.Arrive(a)
	q.Arrive(b)
	require.Same(t, a, q.Next())
	again := request("m")
	q.Cancel("m")
	q.Return(again)
	require.Equal(t, guard.Counters{Invocations: 2, Pending: 2}, q.Count("m"))
	require.Same(t, again, q.Oldest())
	require.Same(t, again, q.Next())
	require.Same(t, b, q.Next())
	require.Nil(t, q.Oldest())
	q.CompleteOne("m")
	q.Cancel("m")
	q.CompleteOne("m")
	q.Cancel("unknown")
	require.Equal(t, guard.Counters{Invocations: 1, Accepted: 1, Completed: 1}, q.Count("m"))
}

func TestALineIsShutWhileItsGuardsAllowNothing(t *testing.T) {
	q := requests.New()
	open := false
	q.Guard("m", func(func(string) guard.Counters) bool { return open })
	q.Arrive(request("m"))
	q.Arrive(request("n"))
	require.Equal(t, "n", q.Next().Method)
	require.True(t, q.Shut("m"))
	var waiting []string
	q.Waiting(func(r *requests.Request) bool { waiting = append(waiting, r.Method); return true })
	require.Equal(t, []string{"m"}, waiting)
	open = true
	require.NotNil(t, q.Candidate(nil, nil))
	require.False(t, q.Shut("m"))
}
