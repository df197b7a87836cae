package failsafe_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	failsafego "github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/adaptivelimiter"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/failsafe"
	stagehttp "github.com/golda-dev/golda/adapter/http"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// A client sees the refusal of a policy as it sees that of a full stage.
func TestAClientIsToldWhenToTryAgainAfterARefusal(t *testing.T) {
	limiter := adaptivelimiter.NewBuilder[any]().WithLimits(1, 1, 1).Build()
	_, taken := limiter.TryAcquirePermit()
	require.True(t, taken)
	for name, c := range map[string]struct {
		policy func() failsafego.Policy[any]
		after  string
	}{
		"the adaptive limiter is at its limit": {func() failsafego.Policy[any] { return limiter }, "1"},
		"the breaker is open": {func() failsafego.Policy[any] {
			open := circuitbreaker.NewBuilder[any]().WithDelay(30 * time.Second).Build()
			open.Open()
			return open
		}, "30"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				guard := failsafe.WrapSink(func(context.Context, int) error { return errors.New("it is called") }, c.policy())
				s := stage.Sink("s", guard.Do)
				p, err := pipeline.New("p", s, pipeline.Logger(slog.New(slog.DiscardHandler)))
				require.NoError(t, err)
				require.NoError(t, p.Start(t.Context()))
				request := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("1"))
				request.Header.Set("Content-Type", "application/json")
				answer := httptest.NewRecorder()
				stagehttp.New(s.Call).ServeHTTP(answer, request)
				body, err := io.ReadAll(answer.Body)
				require.NoError(t, err)
				assert.Equal(t, http.StatusServiceUnavailable, answer.Code, string(body))
				assert.Equal(t, c.after, answer.Header().Get("Retry-After"))
				require.NoError(t, p.Stop(t.Context()))
			})
		})
	}
}
