package policy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
)

// The names of this package's policies, which appear in flags and configuration files.
const names = "backlog, batching, batching:welsh, codel, cohort, cohort:cruz, cohort:gordon, color, dbr, dbr:cruz, " +
	"dbr:gordon, dbr:measured, ds2, erlda, erlda:areias, fixed, hill, inflight, limit, lrb, lrb:cruz, lrb:measured, mg1, objective, rt90, seda, seda:cruz, seda:welsh, shed, srpt, " +
	"srpt-polled, srpt-polled:cruz, srpt:cruz, stealing, stealing:cruz"

func TestEveryNameIsThatOfAValidPolicy(t *testing.T) {
	require.Equal(t, strings.Split(names, ", "), policy.Names())
	require.True(t, slices.IsSorted(policy.Names()))
	for _, name := range policy.Names() {
		p, err := policy.ByName(name)
		require.NoError(t, err)
		require.Equal(t, name, p.Name())
		require.NoError(t, p.Check())
		require.NotNil(t, p.New())
	}
}

func TestAnUnknownNameIsAnErrorThatListsTheKnownOnes(t *testing.T) {
	for _, name := range []string{"Erlda", "", "seda:", "seda:erlda", "seda:cruz:welsh", "stealing:welsh", ":cruz"} {
		_, err := policy.ByName(name)
		require.EqualError(t, err, fmt.Sprintf("policy: unknown policy %q; known are %s", name, names))
		var unknown *policy.UnknownError
		require.ErrorAs(t, err, &unknown)
		require.Equal(t, name, unknown.Name)
	}
}

func TestFixedNeverChangesAnythingAndAsksForNoTicks(t *testing.T) {
	f := newRow(policy.Fixed{}.New(), controller.StageStats{Workers: 3, MinWorkers: 1, MaxWorkers: 9})
	require.Equal(t, []int{3, 3, 3, 3}, f.run(1024, 1024, 0, 0))
	require.Empty(t, f.journal.Entries())

	var d controller.Decisions
	policy.Fixed{}.New().Control(controller.Event{Kind: controller.EventStart}, &controller.Snapshot{}, &d)
	require.Zero(t, d.Interval())
}
