package fleet

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/reason"
	"github.com/golda-dev/golda/stage/stats"
)

// at is an instant so many milliseconds after a fixed one.
func at(ms int) time.Time {
	return time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC).Add(time.Duration(ms) * time.Millisecond)
}

func member1(id, name string) announcement {
	return announcement{ID: id, Name: name, Every: 100 * time.Millisecond}
}

// text lists the members of a roster.
func (r *roster) text() string {
	var all []string
	for _, m := range r.list() {
		state := "there"
		switch {
		case m.Left:
			state = "left"
		case m.lost:
			state = "lost"
		}
		all = append(all, m.ID+" "+state)
	}
	return strings.Join(all, ", ")
}

func TestARosterKnowsWhichMembersAreThere(t *testing.T) {
	left := member1("1", "a")
	left.Left = true
	hear := func(a announcement, ms int) func(*roster) { return func(r *roster) { r.hear(a, at(ms)) } }
	look := func(ms int) func(*roster) { return func(r *roster) { r.look(at(ms)) } }
	for name, c := range map[string]struct {
		steps []func(*roster)
		want  string
	}{
		"one that is heard is there":                    {[]func(*roster){hear(member1("1", "a"), 0), look(300)}, "1 there"},
		"one that is not heard for three beats is lost": {[]func(*roster){hear(member1("1", "a"), 0), look(301)}, "1 lost"},
		"one that was lost is back when it is heard":    {[]func(*roster){hear(member1("1", "a"), 0), look(301), hear(member1("1", "a"), 400), look(500)}, "1 there"},
		"one that has left is not lost":                 {[]func(*roster){hear(left, 0), look(1000)}, "1 left"},
		"nothing is heard of one that has left":         {[]func(*roster){hear(left, 0), hear(member1("1", "a"), 1)}, "1 left"},
		"one that is gone is forgotten after an hour":   {[]func(*roster){hear(left, 0), look(3_600_001)}, ""},
		"one that is gone is replaced by its name":      {[]func(*roster){hear(left, 0), hear(member1("2", "a"), 1)}, "2 there"},
		"one that is there is not":                      {[]func(*roster){hear(member1("1", "a"), 0), hear(member1("2", "a"), 1)}, "1 there, 2 there"},
		"after an excuse the silence begins anew":       {[]func(*roster){hear(member1("1", "a"), 0), func(r *roster) { r.excuse(at(1000)) }, look(1300)}, "1 there"},
		"what another member knows of one that is gone": {
			[]func(*roster){func(r *roster) {
				r.hearOf(departed{member1("1", "a"), time.Minute}, at(0))
				r.hearOf(departed{left, time.Minute}, at(0))
				r.hearOf(departed{member1("2", "b"), 2 * time.Hour}, at(0))
				r.hearOf(departed{member1("3", "c"), -time.Hour}, at(0))
			}}, "1 lost",
		},
		"and is here again": {
			[]func(*roster){hear(member1("2", "a"), 0), func(r *roster) { r.hearOf(departed{member1("1", "a"), time.Minute}, at(0)) }}, "2 there",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRoster()
			for _, step := range c.steps {
				step(r)
			}
			require.Equal(t, c.want, r.text())
		})
	}
}

func TestARosterIsBounded(t *testing.T) {
	r := newRoster()
	for n := range mostMembers + 10 {
		require.Equal(t, n < mostMembers, r.hear(member1(strconv.Itoa(n), strconv.Itoa(n)), at(0)))
	}
	require.Len(t, r.list(), mostMembers)
	r.look(at(1000))
	require.Len(t, r.departed(at(1000)), mostGone)
	for n := range 10 {
		require.True(t, r.hear(member1("new "+strconv.Itoa(n), "new "+strconv.Itoa(n)), at(1000)), "one that is there takes the place of one that is gone")
	}
	require.Len(t, r.list(), mostMembers)
	there := 0
	for _, m := range r.list() {
		if !m.gone() {
			there++
		}
	}
	require.Equal(t, 10, there)
}

// The server is asked for the numbers one after the other, so there may seem to be fewer messages done than before.
func TestCountersDoNotGoBackUnlessTheStreamIsMadeAnew(t *testing.T) {
	e := NewExporter(&Fleet{})
	for _, c := range []struct {
		published, pending, want uint64
	}{{100, 10, 90}, {100, 12, 90}, {101, 10, 91}, {5, 2, 3}, {5, 3, 3}, {100, 99, 3}} {
		e.hold(Snapshot{Inlets: []Inlet{{Name: "in", Status: nats.Status{Published: c.published, Pending: c.pending}}}})
		_, done, err := e.latest(t.Context())
		require.NoError(t, err)
		require.Equal(t, map[string]uint64{"in": c.want}, done)
	}
}

// All processes have gone for longer than they are kept, and their inlet has a message: one process is wanted.
func TestAnInletIsKnownWhenAllProcessesAreForgotten(t *testing.T) {
	l := running(t)
	conn, err := nats.Connect(t.Context(), l.server.ClientURL())
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.Background())) }()
	f, err := Observe(t.Context(), conn, "shop", Options{Every: time.Hour, Wait: time.Second})
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Leave(context.Background())) }()
	require.Eventually(t, func() bool {
		s, err := f.Snapshot(t.Context())
		return err == nil && len(s.Inlets) == 1
	}, time.Minute, 10*time.Millisecond)
	all, err := f.inlets(t.Context(), nil)
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.EqualValues(t, 20, all[0].Pending)
	require.Equal(t, 1, all[0].WantedProcesses)
	require.NoError(t, conn.JetStream().DeleteStream(t.Context(), "GOLDA_orders"))
	all, err = f.inlets(t.Context(), nil)
	require.NoError(t, err, "it was removed")
	require.Empty(t, all)
	require.Empty(t, f.known)
}

// process1 is a process that feeds the stage work with the inlet in.
func process1(rate float64, units ...unit) Process {
	a := announcement{Name: "p", Units: units, Inlets: []inletLoad{{Name: "in", Stage: "work", Rate: rate}}}
	for i := range a.Units {
		if a.Units[i].Inlets == nil {
			a.Units[i].Inlets = []string{"in"}
		}
	}
	return Process{State: Alive, said: a}
}

func TestTheLawOfProcesses(t *testing.T) {
	law := policy.Backlog{Target: 10 * time.Second, Utilization: 0.5}
	four := unit{Name: "work", Workers: 4, Most: 4, Busy: 4}
	idle := unit{Name: "work", Workers: 4, Most: 4}
	silent, lost, left := process1(40, four), process1(40, four), process1(40, four)
	silent.State, lost.State, left.State = Silent, Lost, Left
	for name, c := range map[string]struct {
		pending   uint64
		fill      float64
		processes []Process
		want      string // bottleneck, workers, wanted workers, processes, wanted processes
	}{
		"nothing to do and no process":                   {0, 0, nil, "- 0 0 0 0"},
		"a message and no process":                       {7, 0, nil, "- 0 1 0 1"},
		"nothing to do":                                  {0, 0, []Process{process1(0, idle)}, "work 4 0 1 0"},
		"the present load needs spare workers":           {4, 0, []Process{process1(40, four)}, "work 4 8 1 2"},
		"10004 messages of 100 ms are work for 1000 s":   {10_004, 0, []Process{process1(40, four)}, "work 4 100 1 25"},
		"two processes do twice as much":                 {10_008, 0, []Process{process1(40, four), process1(40, four)}, "work 8 100 2 25"},
		"one that is silent counts":                      {10_008, 0, []Process{process1(40, four), silent}, "work 8 100 2 25"},
		"one that is lost or has left does not":          {10_004, 0, []Process{process1(40, four), lost, left}, "work 4 100 1 25"},
		"while nothing is done the workers are kept":     {10, 0, []Process{process1(0, idle)}, "work 4 4 1 1"},
		"busy workers are known also if nothing is done": {10, 0, []Process{process1(0, four)}, "work 4 8 1 2"},
		"a stream that is full asks for twice as many":   {0, 1, []Process{process1(0, idle)}, "work 4 8 1 2"},
		"the stage that asks for the most processes": {
			10_000, 0,
			[]Process{process1(100,
				unit{Name: "quick", Workers: 1, Most: 1}, unit{Name: "slow", Workers: 2, Most: 2, Busy: 2}, unit{Name: "wide", Workers: 64, Most: 64, Busy: 20})},
			"slow 2 20 1 10",
		},
		"workers of other inlets are not meant": {
			10, 0,
			[]Process{process1(10,
				unit{Name: "work", Workers: 4, Most: 4, Busy: 1}, unit{Name: "other", Workers: 1, Most: 1, Busy: 1, Inlets: []string{"other"}})},
			"work 4 2 1 1",
		},
		"numbers that cannot be are none": {10, 0, []Process{process1(math.Inf(1),
			unit{Name: "work", Workers: -4, Most: -4, Busy: math.NaN()})}, "work 0 1 1 1"},
	} {
		t.Run(name, func(t *testing.T) {
			i := newInlet("in", nats.Status{Pending: c.pending, Fill: c.fill}, c.processes, law)
			require.Equal(t, c.want, fmt.Sprintf("%s %d %d %d %d", orNone(i.Bottleneck), i.Workers, i.WantedWorkers, i.Processes, i.WantedProcesses))
		})
	}
}

// A stage may have 16 workers in a process of two CPUs, and they compute. If they are never all busy, the law cannot know from them that two
// CPUs do not do what 16 workers could; and when they are, it is late.
func TestTheLawOfProcessesCountsTheCPUs(t *testing.T) {
	law := policy.Backlog{Target: 10 * time.Second, Utilization: 0.5}
	on := func(c cpus, busy float64) Process {
		p := process1(20, unit{Name: "work", Workers: 4, Most: 16, Busy: busy})
		p.said.CPUs = c
		return p
	}
	for name, c := range map[string]struct {
		pending   uint64
		processes []Process
		want      string // bottleneck, workers, wanted workers, processes, wanted processes
	}{
		"the CPUs are busy for more than they should":   {4, []Process{on(cpus{2, 1.5}, 2), on(cpus{2, 1.5}, 2)}, "CPUs 4 6 2 3"},
		"they need no more processes than the workers":  {4, []Process{on(cpus{2, 0.5}, 1), on(cpus{2, 0.5}, 1)}, "work 8 4 2 1"},
		"the handlers wait, and need no CPU":            {4, []Process{on(cpus{2, 0}, 8), on(cpus{2, 0}, 8)}, "work 8 32 2 2"},
		"what waits asks for more than the CPUs":        {10_000, []Process{on(cpus{2, 1.5}, 2), on(cpus{2, 1.5}, 2)}, "work 8 100 2 7"},
		"processes of which it is not known are left":   {4, []Process{on(cpus{2, 1.5}, 2), on(cpus{}, 2)}, "CPUs 2 3 2 2"},
		"it is not known of any":                        {4, []Process{on(cpus{}, 2), on(cpus{}, 2)}, "work 8 8 2 1"},
		"numbers that cannot be are none":               {4, []Process{on(cpus{-2, 1}, 2), on(cpus{2, math.Inf(1)}, 2)}, "work 8 8 2 1"},
		"one of another size counts with what it has":   {4, []Process{on(cpus{6, 3}, 3), on(cpus{2, 3}, 3)}, "CPUs 8 12 2 3"},
		"processes that are idle need not be there all": {0, []Process{on(cpus{2, 0}, 0), on(cpus{2, 0}, 0)}, "work 8 0 2 0"},
	} {
		t.Run(name, func(t *testing.T) {
			i := newInlet("in", nats.Status{Pending: c.pending}, c.processes, law)
			require.Equal(t, c.want, fmt.Sprintf("%s %d %d %d %d", orNone(i.Bottleneck), i.Workers, i.WantedWorkers, i.Processes, i.WantedProcesses))
		})
	}
}

func TestAMeterMeasuresTheCPUsThatHandlersAreBusyWith(t *testing.T) {
	r := func(s, n int, used float64) reading {
		return reading{at: at(1000 * s), cpus: n, cpu: time.Duration(used * float64(time.Second))}
	}
	busy := func(n float64) []unit {
		return []unit{{Name: "w", Busy: n, Inlets: []string{"in"}}, {Name: "other", Busy: 7}}
	}
	var m meter
	require.Equal(t, cpus{Most: 2}, m.computing(r(0, 2, 5), busy(2)))
	m.add(r(0, 2, 5))
	require.Equal(t, cpus{Most: 2}, m.computing(r(0, 2, 5), busy(2)), "no time has passed")
	require.Equal(t, cpus{2, 1.5}, m.computing(r(10, 2, 20), busy(2)))
	require.Equal(t, cpus{2, 0.5}, m.computing(r(10, 2, 20), busy(0.5)), "something else than handlers computes, too")
	require.Equal(t, cpus{2, 2}, m.computing(r(10, 2, 40), busy(9)), "no more than there are")
	require.Equal(t, cpus{Most: 2}, m.computing(r(10, 2, 4), busy(9)), "the time has gone back")
	require.Zero(t, m.computing(r(10, 0, 0), busy(9)), "the system does not say")
}

// More messages never want fewer processes, and more workers in a process never more.
func TestTheLawOfProcessesIsMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u := unit{Name: "work", Workers: rapid.IntRange(1, 64).Draw(t, "workers")}
		u.Most = u.Workers + rapid.IntRange(0, 64).Draw(t, "further")
		u.Busy = rapid.Float64Range(0, float64(u.Workers)).Draw(t, "busy")
		rate := rapid.Float64Range(0, 1e6).Draw(t, "rate")
		pending := rapid.Uint64Range(0, 1<<40).Draw(t, "pending")
		wanted := func(pending uint64, u unit) int {
			return newInlet("in", nats.Status{Pending: pending}, []Process{process1(rate, u)}, policy.Backlog{Target: time.Second}).WantedProcesses
		}
		n := wanted(pending, u)
		require.GreaterOrEqual(t, n, 0)
		require.GreaterOrEqual(t, wanted(2*pending+1, u), n)
		wide := u
		wide.Most *= 2
		require.LessOrEqual(t, wanted(pending, wide), n)
	})
}

func TestAMeterMeasuresWhatIsBusyAndDone(t *testing.T) {
	var m meter
	r := func(s int, workers int, busy float64, done uint64) reading {
		return reading{
			at: at(1000 * s), busy: map[string]time.Duration{"w": time.Duration(busy * float64(time.Second))}, workers: map[string]int{"w": workers},
			done: map[string]uint64{"in": done}, units: []unit{{Name: "w", Workers: workers, Most: 8}}, loads: []inletLoad{{Name: "in"}},
		}
	}
	units, loads := m.measure(r(0, 1, 0, 0))
	require.Equal(t, unit{Name: "w", Workers: 1, Most: 8}, units[0])
	require.Zero(t, loads[0].Rate)
	m.add(r(0, 1, 0, 0))
	units, loads = m.measure(r(2, 4, 3, 50))
	require.Equal(t, unit{Name: "w", Workers: 4, Most: 8, Busy: 1.5}, units[0])
	require.InDelta(t, 25.0, loads[0].Rate, 1e-9)
	m.add(r(2, 4, 3, 50))
	m.add(r(4, 4, 11, 60))
	units, _ = m.measure(r(6, 4, 19, 60))
	require.Equal(t, 4, units[0].Most, "all are busy, and there are not more of them")
	units, _ = m.measure(r(6, 5, 19, 60))
	require.Equal(t, 8, units[0].Most, "there are more of them")
	units, _ = m.measure(r(6, 4, 12, 60))
	require.Equal(t, 8, units[0].Most, "they are not busy")
	_, loads = m.measure(r(6, 4, 0, 0))
	require.Zero(t, loads[0].Rate, "another stage has the old name")
	for s := range 100 {
		m.add(r(s, 1, 0, 0))
	}
	require.Len(t, m.last, window)
}

func TestASnapshotSurvivesItsWayWithErrors(t *testing.T) {
	s := pipeline.Snapshot{
		Pipeline: "p", Policy: "backlog", At: at(0), Accepted: 3, Replied: 3,
		Stages: []stage.Snapshot{{
			Name: "s", Counts: stats.Counts{Accepted: 3, OK: 3, BusyTime: time.Second},
			Reasons: stats.Reasons{Rejected: map[reason.Reason]uint64{reason.Full: 2}},
			Latency: stats.Latency{Wait: stats.Durations{Count: 3, P50: 1, P99: 2}}, Methods: []stats.Method{{Method: "m"}},
		}, {Name: "t"}},
		Feeds: []pipeline.FeedSnapshot{{Name: "f"}, {Name: "g", State: "away", Err: fmt.Errorf("away: %w", errors.New("no route"))}},
		Pools: []pipeline.Pool{{Name: "s", Workers: 1}},
	}
	want := fmt.Sprintf("%+v", s)
	data, err := encodeState(s)
	require.NoError(t, err)
	got, err := decodeState(data)
	require.NoError(t, err)
	require.EqualError(t, got.Feeds[1].Err, "away: no route")
	require.NoError(t, got.Feeds[0].Err)
	s.Feeds[1].Err, got.Feeds[1].Err = nil, nil
	require.Equal(t, s, got, want)
}

type badError struct{}

func (badError) Error() string { panic("no text") }

func TestTheTextOfAnErrorThatPanicsIsItsType(t *testing.T) {
	require.Equal(t, "fleet.badError, whose Error panicked", textOf(badError{}))
	require.Less(t, len(textOf(errors.New(strings.Repeat("ü", 10_000)))), longestText+8)
}

func TestSubjectsOfDifferentNamesDiffer(t *testing.T) {
	require.Equal(t, "golda.fleet.shop_1.ask", subjectsOf("shop_1").ask)
	require.Equal(t, "golda.fleet.%2E%2A %25%C3%BC.news", strings.Replace(subjectsOf(".* %ü").news, "%20", " ", 1))
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.String().Draw(t, "a"), rapid.String().Draw(t, "b")
		require.Equal(t, a == b, token(a) == token(b))
		require.NotContains(t, token(a), ".")
	})
}

func TestASnapshotIsATable(t *testing.T) {
	s := Snapshot{
		Pipeline: "shop", At: at(60_000),
		Processes: []Process{
			{Name: "a", Host: "one", PID: 7, State: Alive, Stages: []string{"ocr", "save"}, Snapshot: pipeline.Snapshot{Stages: []stage.Snapshot{
				{Name: "ocr", Pool: "ocr", Workers: stats.Workers{Live: 4}}, {Name: "save", Pool: "io"},
			}}},
			{Name: "b\x1b[2J\n", Host: "two", PID: 12345, State: Lost, Heard: at(0), Stages: []string{"ocr"}},
			{Name: "c", Host: "three", PID: 8, State: Alive, Err: errors.New("newer")},
		},
		Inlets: []Inlet{
			{
				Name: "orders", Stage: "ocr", Status: nats.Status{Pending: 120, InFlight: 8, Age: 1234 * time.Millisecond, DeadLettered: 1},
				Rate: 12.3, Processes: 1, Bottleneck: "ocr", Workers: 4, WantedWorkers: 9, WantedProcesses: 3,
			},
			{Name: "idle"},
		},
	}
	require.Equal(t, `pipeline shop

PROCESS  HOST   PID    STATE                STAGES AND WORKERS
a        one    7      alive                ocr 4, save of io
b?[2J?   two    12345  lost for 1m0s        ocr
c        three  8      alive, not readable

INLET   STAGE  PENDING  IN FLIGHT  OLDEST  DEAD  DONE/S  WORKERS  WANTED  PROCESSES  WANTED  BOTTLENECK
orders  ocr    120      8          1.23s   1     12      4        9       1          3       ocr
idle    -      0        0          -       0     0       0        0       0          0       -
`, s.String())
}

func TestTheLawOfASnapshotCanBeBroken(t *testing.T) {
	good := Inlet{Name: "in", Status: nats.Status{Published: 10, Buried: 1, Pending: 2, InFlight: 1}, Acknowledged: 7}
	for name, c := range map[string]struct {
		change func(*Inlet)
		want   bool
	}{
		"it holds":                           {func(*Inlet) {}, true},
		"a message was acknowledged twice":   {func(i *Inlet) { i.Acknowledged, i.Redeliveries = 9, 1 }, true},
		"and never delivered again":          {func(i *Inlet) { i.Acknowledged = 9 }, false},
		"more is pending than was published": {func(i *Inlet) { i.Pending = 11 }, false},
	} {
		i := good
		c.change(&i)
		require.Equal(t, c.want, Snapshot{Inlets: []Inlet{i}}.Balanced(), name)
	}
	require.EqualValues(t, 7, good.Done())
	good.Acknowledged = 5
	require.EqualValues(t, 2, good.Unreported())
	require.Equal(t, "in: published 10 = done 7 + dead-lettered 1 + pending 2, of which 1 are in flight; acknowledged 5, delivered again 0\n",
		Snapshot{Inlets: []Inlet{good}}.Law())
}
