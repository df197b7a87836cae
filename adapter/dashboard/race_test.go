package dashboard_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/dashboard"
	"github.com/golda-dev/golda/adapter/dashboard/api"
)

// The race of a second: its advice is in the answer and in the journal, and nothing has changed.
func TestARaceIsAskedForLikeAnAction(t *testing.T) {
	p := newShop(t)
	server := newDashboard(t, p.Pipeline, dashboard.Options{Token: secret})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for p.in.Submit(ctx, order{"a", ""}) == nil {
			time.Sleep(5 * time.Millisecond)
		}
	}()
	was := p.Snapshot().Policy
	status, text := post(t, server, "race", `{"forNs":1000000000,"withinNs":200000000,"name":"codel","who":"ann"}`, nil)
	require.Equal(t, http.StatusOK, status, text)
	var d api.Done
	require.NoError(t, json.Unmarshal([]byte(text), &d))
	require.Equal(t, 1, d.Count)
	require.Contains(t, d.Text, "\n1. codel: ")
	j := read[api.Journal](t, server, "/journal")
	last := j.Changes[len(j.Changes)-1]
	require.Equal(t, []any{d.N, "race", "operator:ann", was}, []any{last.N, last.What, last.Who, last.From})
	require.Contains(t, d.Text, last.Reason)
	require.Equal(t, was, p.Snapshot().Policy)
}
