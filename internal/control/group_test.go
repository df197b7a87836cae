package control

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/controller"
)

// drawn returns a snapshot of stages with names of one letter, and edges such as "ab". Each stage has ten commands.
func drawn(names string, edges ...string) *controller.Snapshot {
	s := &controller.Snapshot{InFlight: 100, Entry: controller.Admission{Limit: 7}}
	for i, name := range names {
		st := controller.StageStats{ID: controller.StageID(i), Name: string(name), QueueLen: 8, InHand: 2}
		for _, e := range edges {
			if e[:1] == string(name) {
				st.Next = append(st.Next, controller.StageID(strings.Index(names, e[1:])))
			}
		}
		s.Stages = append(s.Stages, st)
		s.Pools = append(s.Pools, controller.PoolStats{Name: string(name), Own: true, Stages: []controller.StageID{controller.StageID(i)}})
	}
	return s
}

// words writes the graph of a snapshot, a word for each stage: its name and the names of the next stages.
func words(s *controller.Snapshot) string {
	var all []string
	for i, st := range s.Stages {
		word := []string{st.Name}
		for _, id := range st.Next {
			word = append(word, s.Stages[id].Name)
		}
		if st.ID != controller.StageID(i) {
			word = append(word, fmt.Sprint("?", st.ID))
		}
		all = append(all, strings.Join(word, ""))
	}
	return strings.Join(all, " ")
}

func TestAControllerSeesItsPartOfTheGraph(t *testing.T) {
	line := []string{"ab", "bc", "cd"}
	for name, row := range map[string]struct {
		edges      []string
		group      string // stages of the group g
		part, rest string
	}{
		"the end of a line":           {line, "cd", "cd d", "ab b"},
		"the middle of a line":        {line, "bc", "bc c", "ad d"},
		"both ends of a line":         {line, "ad", "ad d", "bc c"},
		"all":                         {line, "abcd", "ab bc cd d", ""},
		"none":                        {line, "", "", "ab bc cd d"},
		"two paths to one stage":      {[]string{"ab", "ac", "bd", "cd"}, "bc", "b c", "ad d"},
		"a loop outside":              {[]string{"ab", "bc", "cb", "cd"}, "ad", "ad d", "bc cb"},
		"a loop through another part": {[]string{"ab", "ba"}, "a", "aa", "bb c d"},
	} {
		t.Run(name, func(t *testing.T) {
			of := func(name string) string {
				if name == "g" || strings.Contains(row.group, name) {
					return "g"
				}
				return ""
			}
			s := drawn("abcd", row.edges...)
			s.Pools = append(s.Pools, controller.PoolStats{Name: "g", Group: true})
			part, ids := narrow(s, "g", of, of)
			require.Equal(t, row.part, words(part))
			require.Len(t, ids, len(part.Stages))
			require.Equal(t, 10*len(part.Stages), part.InFlight)
			require.Zero(t, part.Entry)
			require.Equal(t, "g", part.Group)
			require.NotNil(t, part.Pool("g"))
			require.Len(t, part.Taken, 4-len(part.Stages))

			rest, _ := narrow(s, "", of, of)
			require.Equal(t, row.rest, words(rest))
			require.Equal(t, 100, rest.InFlight)
			require.Equal(t, 7, rest.Entry.Limit)
			require.Contains(t, rest.Taken, "g")
		})
	}
}

func TestAPlanIsRenumberedAndWidenedAgain(t *testing.T) {
	inPart := []controller.StageID{noStage, 0, noStage, 1}
	plan := &controller.VisitPlan{
		Order: []controller.StageID{3, 0, 1, 3, 9, -1}, Bounds: map[controller.StageID]int{0: 5, 3: 6, 7: 8}, Bound: 2,
	}
	part := renumber(plan, inPart)
	require.Equal(t, &controller.VisitPlan{
		Order: []controller.StageID{1, 0, 1}, Bounds: map[controller.StageID]int{1: 6}, Bound: 2,
	}, part)
	p := &activePolicy{group: "g", ids: []controller.StageID{1, 3}}
	wide := p.widen(controller.Change{Stage: 1, What: controller.KnobVisit, After: part})
	require.Equal(t, controller.Change{Group: "g", Stage: 3, What: controller.KnobVisit, After: &controller.VisitPlan{
		Order: []controller.StageID{3, 1, 3}, Bounds: map[controller.StageID]int{3: 6}, Bound: 2,
	}}, wide)
	require.Nil(t, renumber(nil, inPart))
	require.Equal(t, noStage, p.visible(0))
	require.EqualValues(t, 1, p.visible(3))
	require.Equal(t, noStage, p.visible(noStage))
}

func TestAControllerMayTurnItsOwnKnobsOnly(t *testing.T) {
	group := &controller.Snapshot{Group: "g", Pools: []controller.PoolStats{{Name: "a"}, {Name: "g"}}, Taken: []string{"b"}}
	whole := &controller.Snapshot{Pools: []controller.PoolStats{{Name: "b"}}, Taken: []string{"g"}}
	for name, row := range map[string]struct {
		s    *controller.Snapshot
		ch   controller.Change
		want string
	}{
		"a group's own pool":              {group, turn(noStage, "g", controller.KnobWorkers, 1), ""},
		"a group's stage":                 {group, turn(0, "a", controller.KnobWorkers, 1), ""},
		"a group's stage to its own pool": {group, turn(0, "a", controller.KnobPool, "a"), ""},
		"a group's stage to another pool": {group, turn(0, "a", controller.KnobPool, "b"), `pool "b"`},
		"a new pool for a group":          {group, turn(noStage, "h", controller.KnobWorkers, 1), `pool "h"`},
		"the entry, for a group":          {group, turn(entry, "", controller.KnobLimit, 1), "the entry of the pipeline"},
		"the entry":                       {whole, turn(entry, "", controller.KnobLimit, 1), ""},
		"a new pool":                      {whole, turn(noStage, "h", controller.KnobWorkers, 1), ""},
		"a pool of a group":               {whole, turn(noStage, "g", controller.KnobWorkers, 1), `pool "g"`},
		"a stage to a pool of a group":    {whole, turn(0, "b", controller.KnobPool, "g"), `pool "g"`},
	} {
		require.Equal(t, row.want, foreign(row.s, row.ch), name)
	}
}

func TestTheGovernorOfAPoolIsThatOfItsGroupOrItsStage(t *testing.T) {
	s, _ := stateOf()
	s.apply(turn(noStage, "h", controller.KnobWorkers, 3))
	s.apply(turn(3, "d", controller.KnobPool, "h"))
	for governs, want := range map[bool]string{true: "a: b: c:g d:g g:g h:", false: "a: b: c: d: g: h:"} {
		var got []string
		for _, name := range []string{"a", "b", "c", "d", "g", "h"} {
			got = append(got, name+":"+s.poolGovernor(name, func(group string) bool { return governs && group == "g" }))
		}
		require.Equal(t, want, strings.Join(got, " "))
	}
}

func TestAPartHasTheInflowsFromItsOwnStages(t *testing.T) {
	s := drawn("abc", "ac", "bc")
	s.Stages[2].Before, s.Stages[2].Inflows = []controller.StageID{0, 1, 2}, []uint64{7, 5, 3}
	of := func(name string) string {
		if strings.Contains("bc", name) {
			return "g"
		}
		return ""
	}
	part, _ := narrow(s, "g", of, of)
	require.Equal(t, []controller.StageID{0, 1}, part.Stages[1].Before)
	require.Equal(t, []uint64{5, 3}, part.Stages[1].Inflows)
	require.Equal(t, []controller.StageID{0, 1, 2}, s.Stages[2].Before, "the whole snapshot is as it was")
	require.Equal(t, []uint64{7, 5, 3}, s.Stages[2].Inflows)
}
