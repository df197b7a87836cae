package worker

import (
	"reflect"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/internal/stacks"
)

// nameOf returns the name of a function as stacks print it.
func nameOf(f any) string { return runtime.FuncForPC(reflect.ValueOf(f).Pointer()).Name() }

func TestTheFunctionsThatCallHandlersAreKnownByName(t *testing.T) {
	require.Equal(t, []string{nameOf((*Worker).work), nameOf((*Run).serve)}, stacks.HandlerCallers)
}
