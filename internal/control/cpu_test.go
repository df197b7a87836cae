package control

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// metered reads a meter at these times, of a process that uses one CPU all the time.
func metered(m *cpuMeter, cpus int, at ...time.Duration) (shares []float64) {
	for _, d := range at {
		shares = append(shares, m.share(cpuSample{time.Unix(0, 0).Add(d), d}, cpus))
	}
	return shares
}

func TestTheUsageIsAShareOfTheCPUsThatTheSnapshotCounts(t *testing.T) {
	assert.Equal(t, []float64{0, 1}, metered(&cpuMeter{}, 1, 0, time.Second))
	assert.Equal(t, []float64{0, 0.25}, metered(&cpuMeter{}, 4, 0, time.Second))
	assert.Equal(t, []float64{0, 0}, metered(&cpuMeter{}, 1, 0, time.Millisecond), "too short to know")
}

func TestCallersDoNotShortenEachOthersWindowOfTheUsage(t *testing.T) {
	busy := func(from, to, at time.Duration) cpuSample { // a process that uses one CPU during this time
		return cpuSample{time.Unix(0, 0).Add(at), min(max(at-from, 0), to-from)}
	}
	ms := time.Millisecond
	for name, often := range map[string]time.Duration{"one": time.Second, "ten": 100 * ms, "a thousand": ms} {
		t.Run(name, func(t *testing.T) {
			m := &cpuMeter{}
			seen := map[time.Duration]float64{}
			for at := time.Duration(0); at <= 5*time.Second; at += often {
				seen[at] = m.share(busy(1500*ms, 2500*ms, at), 1)
			}
			assert.InDelta(t, 0, seen[time.Second], 0.01)
			assert.InDelta(t, 0.5, seen[2*time.Second], 0.06)
			assert.InDelta(t, 0.5, seen[3*time.Second], 0.06)
			assert.InDelta(t, 0, seen[4*time.Second], 0.01)
			assert.LessOrEqual(t, len(m.samples), 12)
		})
	}
}

func TestAUsageThatIsSeldomReadCoversAllTheTimeSince(t *testing.T) {
	assert.Equal(t, []float64{0, 1, 1}, metered(&cpuMeter{}, 1, 0, time.Minute, time.Hour))
	m := &cpuMeter{}
	m.share(cpuSample{time.Unix(0, 0), 0}, 1)
	assert.InDelta(t, 0.5, m.share(cpuSample{time.Unix(60, 0), 30 * time.Second}, 1), 0.001)
}

func TestTheUsageIsTheSameForAllThatReadItAtOnce(t *testing.T) {
	m := &cpuMeter{}
	m.usage(1)
	for begin := time.Now(); time.Since(begin) < 50*time.Millisecond; { //nolint:revive // busy on purpose
	}
	first := m.usage(1)
	assert.InDelta(t, first, m.usage(1), 0.1)
	assert.InDelta(t, first, m.usage(1), 0.1)
}
