package stagehttp_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	stagehttp "github.com/golda-dev/golda/adapter/http"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// bookPoison panics for an order of poison.
func bookPoison(ctx context.Context, o order) (receipt, error) {
	if o.Item == "poison" {
		panic("poison")
	}
	return book(ctx, o)
}

// streakOf returns how many crashes of a stage have followed one another.
func streakOf(t *testing.T, p *pipeline.Pipeline, name string) int {
	t.Helper()
	for _, s := range p.Snapshot().Stages {
		if s.Name == name {
			return s.Workers.CrashStreak
		}
	}
	t.Fatal("no such stage", name)
	return 0
}

func TestRequestsThatPanicEndNeitherTheProgramNorOtherEndpoints(t *testing.T) {
	for _, poison := range []int{18, 200} {
		t.Run(fmt.Sprint(poison), func(t *testing.T) {
			if poison > 100 && testing.Short() {
				t.Skip("each crash in a row is followed by a pause")
			}
			weak, other := stage.Map("weak", bookPoison), stage.Map("other", book)
			weakly, otherwise := stagehttp.New(weak.Call), stagehttp.New(other.Call)
			mux := http.NewServeMux()
			mux.Handle("POST /weak", weakly)
			mux.Handle("POST /other", otherwise)
			s := run(t, mux, weak, other)

			for range poison { // a streak: no good request is between them
				require.Equal(t, http.StatusInternalServerError, send(t, s.url+"/weak", "application/json", `{"Item":"poison"}`).code)
			}
			assert.Equal(t, poison, streakOf(t, s.Pipeline, "weak"))
			assert.Zero(t, streakOf(t, s.Pipeline, "other"))
			for _, path := range []string{"/weak", "/other"} {
				got := send(t, s.url+path, "application/json", `{"Item":"tea"}`)
				assert.Equal(t, http.StatusOK, got.code, path)
				assert.JSONEq(t, `{"item":"tea","by":"shop"}`, got.body)
			}
			assert.Zero(t, streakOf(t, s.Pipeline, "weak"), "the first success ends it")

			var all sync.WaitGroup // the same again, beside good requests to both endpoints
			for n := range 4 {
				all.Go(func() {
					path, item := []string{"/weak", "/weak", "/weak", "/other"}[n], []string{"poison", "poison", "tea", "tea"}[n]
					for range poison / 2 {
						code := http.StatusOK
						if item == "poison" {
							code = http.StatusInternalServerError
						}
						assert.Equal(t, code, send(t, s.url+path, "application/json", `{"Item":"`+item+`"}`).code, path)
					}
				})
			}
			all.Wait()
			assert.EqualValues(t, 1+poison/2, weakly.Answers(http.StatusOK))
			assert.EqualValues(t, 1+poison/2, otherwise.Answers(http.StatusOK))
			assert.EqualValues(t, 2*poison, weakly.Answers(http.StatusInternalServerError))
			require.NoError(t, s.Err())
			http.DefaultClient.CloseIdleConnections() // a connection without a request delays the stop
			s.stop()
			require.NoError(t, <-s.ran)
			assert.True(t, s.Snapshot().Balanced())
		})
	}
}
