package supervisor_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/supervisor"
)

// Names are in all errors and log lines.
func TestANameOfAMegabyteIsRefusedWithAShortError(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	service := func(name string) supervisor.Child {
		return supervisor.Service(name, func(ctx context.Context) error { <-ctx.Done(); return nil })
	}
	for name, spec := range map[string]supervisor.Spec{
		"a supervisor": {Name: long, Children: []supervisor.Child{service("a")}},
		"a child":      {Children: []supervisor.Child{service(long), service(long)}},
		"below":        {Children: []supervisor.Child{{Name: "sub", Supervisor: &supervisor.Spec{Name: long}}}},
	} {
		_, err := supervisor.Start(t.Context(), nil, spec)
		var fault *supervisor.SpecError
		require.ErrorAs(t, err, &fault, name)
		require.ErrorContains(t, err, "the name has 1048576 bytes, the most is 1024", name)
		require.Less(t, len(err.Error()), 9000, name)
	}
	tree, err := supervisor.Start(t.Context(), nil, supervisor.Spec{Name: strings.Repeat("x", 1024)})
	require.NoError(t, err)
	_, err = tree.Add(t.Context(), service(long))
	require.ErrorContains(t, err, "the name has 1048576 bytes, the most is 1024")
	require.Less(t, len(err.Error()), 5000)
	tree.Stop()
}
