package control

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/controller"
)

func TestChangesOfKnobsAreCountedAndThoseThatStayAreNot(t *testing.T) {
	var l Loop
	l.decided.count(controller.Change{StageName: "b", What: controller.KnobWorkers, Before: 1, After: 2})
	l.decided.count(controller.Change{StageName: "b", What: controller.KnobWorkers, Before: 2, After: 2, Why: "it cannot be more"})
	l.decided.count(controller.Change{StageName: "b", What: controller.KnobWorkers, Before: 2, After: 1})
	l.decided.count(controller.Change{StageName: "b", What: controller.KnobVisit, Before: (*controller.VisitPlan)(nil), After: &controller.VisitPlan{}})
	l.decided.count(controller.Change{StageName: "a", What: controller.KnobEnabled, Before: true, After: false})
	assert.Equal(t, []controller.Decided{
		{Owner: "a", Knob: "enabled", Changes: 1}, {Owner: "b", Knob: "visit", Changes: 1}, {Owner: "b", Knob: "workers", Changes: 2},
	}, l.Decided())
}

func TestTheKnobsThatAreCountedAreBounded(t *testing.T) {
	var l Loop
	for i := range 2 * mostTurned {
		l.decided.count(controller.Change{StageName: strconv.Itoa(i), What: controller.KnobWorkers, Before: 1, After: 2})
	}
	all := l.Decided()
	require.Len(t, all, mostTurned+1)
	assert.Equal(t, controller.Decided{Owner: others, Knob: "workers", Changes: mostTurned}, all[len(all)-1])
}
