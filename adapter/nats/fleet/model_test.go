package fleet

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/controller/policy"
)

// model is a queue, the processes that work it off, and an autoscaler: KEDA or the HPA with their defaults, which asks for the wanted processes
// each 15 s. Time goes by in seconds. It knows nothing of a network: messages are a fluid.
type model struct {
	service float64 // of a message, in seconds
	workers int     // of a process
	rate    func(second int) float64
	law     policy.Backlog

	second    int
	queue     float64
	ready     int
	starting  []int // seconds at which processes become ready
	busy      []float64
	done      []float64
	desired   []int // by poll
	worstWait float64
	most      int
	calm      int // the first second from which no message waits longer than the target
}

// How the autoscaler acts.
const (
	poll      = 15     // seconds
	startup   = 20     // seconds until a process works
	downAfter = 5 * 60 // seconds for which fewer must have been enough
	atLeast   = 4      // pods that may be added in a poll, or as many as there are
)

// step is a second.
func (m *model) step() {
	if m.second%poll == 0 {
		m.scale()
	}
	for len(m.starting) > 0 && m.starting[0] <= m.second {
		m.starting, m.ready = m.starting[1:], m.ready+1
	}
	m.queue += m.rate(m.second)
	done := min(m.queue, m.capacity())
	m.queue -= done
	m.done, m.busy = append(m.done, done), append(m.busy, done*m.service)
	wait := m.queue / m.capacity()
	m.worstWait = max(m.worstWait, wait)
	if wait > m.law.Target.Seconds() {
		m.calm = m.second + 1
	}
	m.most = max(m.most, m.ready)
	m.second++
}

// capacity is how many messages are done in a second.
func (m *model) capacity() float64 { return float64(m.ready*m.workers) / m.service }

// scale does what an autoscaler does at a poll.
func (m *model) scale() {
	var all []Process
	for range m.ready {
		n := float64(m.ready)
		all = append(all, process1(average(m.done)/n, unit{Name: "work", Workers: m.workers, Most: m.workers, Busy: average(m.busy) / n}))
	}
	i := newInlet("in", nats.Status{Pending: uint64(m.queue + average(m.busy))}, all, m.law)
	have := m.ready + len(m.starting)
	m.desired = append(m.desired, min(max(i.WantedProcesses, 1), max(2*have, have+atLeast)))
	want := 0 // the most of the last minutes
	for _, d := range m.desired[max(len(m.desired)-downAfter/poll, 0):] {
		want = max(want, d)
	}
	for m.ready+len(m.starting) < want {
		m.starting = append(m.starting, m.second+startup)
	}
	if m.ready > want && len(m.starting) == 0 {
		m.ready = want
	}
}

// average is that of the last half minute, as a meter measures.
func average(of []float64) (mean float64) {
	last := of[max(len(of)-30, 0):]
	for _, v := range last {
		mean += v / float64(len(last))
	}
	return mean
}

// jump runs the model for an hour at a tenth of a rate, and for an hour at the rate.
func jump(rate float64, target time.Duration) (m *model, before int) {
	const hour = 3600
	m = &model{service: 0.1, workers: 16, ready: 1, law: policy.Backlog{Target: target}, rate: func(s int) float64 {
		if s < hour {
			return rate / 10
		}
		return rate
	}}
	for m.second < hour {
		m.step()
	}
	before = m.ready
	m.worstWait, m.most, m.calm = 0, 0, hour
	for m.second < 2*hour {
		m.step()
	}
	return m, before
}

// The rows are those of docs/scaling.md.
func TestTheLawGivesEachLoadTheProcessesThatItNeeds(t *testing.T) {
	page, err := os.ReadFile("../../../docs/scaling.md")
	require.NoError(t, err)
	var rows []string
	for _, c := range []struct {
		rate   float64
		target time.Duration
	}{
		{100, defaultTarget}, {1_000, defaultTarget}, {10_000, defaultTarget}, {100_000, defaultTarget}, {1_000, time.Minute}, {100_000, time.Minute},
	} {
		rate := c.rate
		m, before := jump(rate, c.target)
		needed := rate * m.service / float64(m.workers)
		require.InDelta(t, needed/0.7, m.ready, 1, "at rest the processes are busy for 70 %")
		settled := m.desired[len(m.desired)-downAfter/poll:]
		for _, d := range settled {
			require.Equal(t, m.ready, d, "it does not swing")
		}
		rows = append(rows, fmt.Sprintf("| %.0f → %.0f | %v | %d → %d | %d | %v | %v |", rate/10, rate, c.target, before, m.ready, m.most,
			time.Duration(m.worstWait*float64(time.Second)).Round(time.Second), time.Duration(m.calm-3600)*time.Second))
	}
	t.Log("\n" + strings.Join(rows, "\n"))
	for _, row := range rows {
		require.Contains(t, string(page), row+"\n")
	}
}
