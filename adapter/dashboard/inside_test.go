package dashboard

import (
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/adapter/dashboard/api"
)

func TestOneRaceIsUnderWayAtATime(t *testing.T) {
	racing.Lock()
	defer racing.Unlock()
	_, err := runRace(t.Context(), &request{})
	require.ErrorIs(t, err, errRacing)
	require.ErrorContains(t, refused(err), "not possible now")
}

// merge applies a merge patch as the pseudocode of RFC 7396 has it.
func merge(target, patch any) any {
	members, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	out, ok := target.(map[string]any)
	if !ok {
		out = map[string]any{}
	}
	for k, v := range members {
		if v == nil {
			delete(out, k)
		} else {
			out[k] = merge(out[k], v)
		}
	}
	return out
}

// values draws JSON without null, which a merge patch cannot set.
func values(depth int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		most := 5
		if depth == 0 {
			most = 3
		}
		switch rapid.IntRange(0, most).Draw(t, "kind") {
		case 0:
			return rapid.StringMatching(`[a-z"\\{}\[\],:<é]{0,6}`).Draw(t, "text")
		case 1:
			return float64(rapid.IntRange(-3, 3).Draw(t, "number"))
		case 2:
			return rapid.Bool().Draw(t, "bool")
		case 3:
			return rapid.SliceOfN(rapid.Just[any]("x"), 0, 2).Draw(t, "array")
		default:
			return object(depth).Draw(t, "object")
		}
	})
}

func object(depth int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		members := map[string]any{}
		for _, k := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", `c"`, "d}", ""}), 0, 4, rapid.ID).Draw(t, "keys") {
			members[k] = values(depth-1).Draw(t, k)
		}
		return members
	})
}

func TestAPatchMakesTheSecondValueOfTheFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from, to := object(3).Draw(t, "from"), object(3).Draw(t, "to")
		before, err := json.Marshal(from)
		require.NoError(t, err)
		after, err := json.Marshal(to)
		require.NoError(t, err)
		text, changed := patch(before, after)
		require.Equal(t, string(before) != string(after), changed)
		if !changed {
			return
		}
		var p any
		require.NoError(t, json.Unmarshal(text, &p), string(text))
		merged, err := json.Marshal(merge(from, p))
		require.NoError(t, err)
		require.JSONEq(t, string(after), string(merged), "by %s", text)
	})
}

// clockwork is a source whose snapshots count.
type clockwork struct {
	recorded

	taken   atomic.Int64
	stages  int
	stopped chan struct{}
}

func (c *clockwork) snapshot() api.Snapshot {
	taken := c.taken.Add(1)
	s := api.Snapshot{At: time.Now(), Accepted: uint64(taken), Stages: map[string]api.Stage{}}
	for i := range c.stages {
		name := string(rune('a' + i))
		s.Order = append(s.Order, name)
		s.Stages[name] = api.Stage{Wait: api.Durations{Count: 1, Buckets: []api.Bucket{{UpToNs: 1, Count: 1}}}}
	}
	return s
}

func (c *clockwork) done() <-chan struct{} { return c.stopped }

// follow returns the pipeline that a viewer sees by the messages that it has: the number of bases, and the last snapshot.
func follow(t *testing.T, v *viewer) (bases int, s api.Snapshot) {
	t.Helper()
	var tree any
	for len(v.messages) > 0 {
		event, data, _ := strings.Cut(strings.TrimPrefix(string(<-v.messages), "event: "), "\n")
		_, data, _ = strings.Cut(data, "data: ")
		switch event {
		case "base":
			var b struct{ Snapshot any }
			require.NoError(t, json.Unmarshal([]byte(data), &b))
			bases, tree = bases+1, b.Snapshot
		case "delta":
			var d struct{ Patch any }
			require.NoError(t, json.Unmarshal([]byte(data), &d))
			tree = merge(tree, d.Patch)
		}
	}
	text, err := json.Marshal(tree)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &s))
	return bases, s
}

func TestSnapshotsAreTakenOnlyWhileThereAreViewers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of := &clockwork{stages: 2}
		s := newSampler(of, 3)
		time.Sleep(time.Minute)
		require.Zero(t, of.taken.Load(), "no viewer")

		one, err := s.join()
		require.NoError(t, err)
		require.EqualValues(t, 1, of.taken.Load(), "a viewer need not wait for the first tick")
		time.Sleep(2*time.Second + time.Millisecond)
		two, err := s.join()
		require.NoError(t, err)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.EqualValues(t, 5, of.taken.Load(), "two viewers share the snapshots")
		for _, v := range []*viewer{one, two} {
			bases, seen := follow(t, v)
			require.Equal(t, 1, bases)
			require.EqualValues(t, 5, seen.Accepted)
			require.Equal(t, []string{"a", "b"}, seen.Order)
		}
		s.leave(one)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		require.EqualValues(t, 8, of.taken.Load())
		s.leave(two)
		time.Sleep(time.Hour)
		require.EqualValues(t, 8, of.taken.Load(), "the last viewer has left")
	}) // which fails if a goroutine is left
}

func TestAViewerThatIsSlowGetsANewBase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of := &clockwork{stages: 1}
		s := newSampler(of, 1)
		v, err := s.join()
		require.NoError(t, err)
		time.Sleep(time.Minute + time.Millisecond)
		require.LessOrEqual(t, len(v.messages), backlog, "its messages are bounded")
		_, seen := follow(t, v)
		require.Less(t, seen.Accepted, uint64(20), "it has missed snapshots")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		bases, seen := follow(t, v)
		require.Equal(t, 1, bases)
		require.EqualValues(t, of.taken.Load(), seen.Accepted)
		s.leave(v)
	})
}

func TestTheNumberOfViewersIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSampler(&clockwork{}, 1)
		v, err := s.join()
		require.NoError(t, err)
		_, err = s.join()
		require.ErrorIs(t, err, errViewers)
		s.leave(v)
		v, err = s.join()
		require.NoError(t, err)
		s.close()
		<-v.ended
		s.leave(v)
		_, err = s.join()
		require.ErrorIs(t, err, errClosed)
	})
}

func TestStreamsEndSoonAfterThePipeline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of := &clockwork{stopped: make(chan struct{})}
		s := newSampler(of, 1)
		s.record()
		v, err := s.join()
		require.NoError(t, err)
		time.Sleep(3 * time.Second)
		close(of.stopped)
		start := time.Now()
		<-v.ended
		require.Equal(t, stopped, time.Since(start))
		s.leave(v)
		taken := of.taken.Load()
		time.Sleep(time.Minute)
		require.Equal(t, taken, of.taken.Load())
	})
}

func TestTheRingHasTenMinutes(t *testing.T) {
	for name, tt := range map[string]struct {
		stages, every int
	}{
		"of a small pipeline, each second": {3, 1},
		"of one that is just small enough": {40, 1},
		"of a large one, fewer":            {41, 2},
	} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && tt.stages > 3 {
				t.Skip("it takes seconds with the race detector")
			}
			synctest.Test(t, func(t *testing.T) {
				s := newSampler(&clockwork{stages: tt.stages}, 1)
				s.record()
				time.Sleep(11*time.Minute + time.Millisecond)
				synctest.Wait()
				h := s.history(nil)
				s.close()
				every := time.Duration(tt.every) * time.Second
				require.EqualValues(t, every, h.EveryNs)
				require.InDelta(t, int(kept/every), len(h.Snapshots), 2)
				require.LessOrEqual(t, len(h.Snapshots)*tt.stages, mostStages+3*tt.stages)
				detailed := 0
				for i, one := range h.Snapshots {
					if i > 0 && i < len(h.Snapshots)-1 {
						require.Equal(t, every, one.At.Sub(h.Snapshots[i-1].At))
					}
					if len(one.Stages["a"].Wait.Buckets) > 0 {
						detailed++
					}
				}
				require.NotEmpty(t, h.Snapshots[len(h.Snapshots)-1].Stages["a"].Wait.Buckets)
				require.InDelta(t, len(h.Snapshots)/60, detailed, 2)
			})
		})
	}
}

func TestALargePipelineHasFewerSnapshots(t *testing.T) {
	s := newSampler(&clockwork{}, 1)
	for stages, every := range map[int]int{0: 1, 1: 1, 40: 1, 41: 2, 80: 2, 200: 5, 1000: 25} {
		require.Equal(t, every, s.every(stages), stages)
	}
}

func TestTheVerdictOfAMinuteAgoIsOfThatTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSampler(&clockwork{stages: 1}, 1)
		s.record()
		time.Sleep(30 * time.Second)
		v, err := s.verdicts(interval, nil)
		require.NoError(t, err)
		require.Nil(t, v.Before)
		require.EqualValues(t, 10*time.Second, v.Now.OverNs)
		time.Sleep(time.Minute)
		v, err = s.verdicts(interval, nil)
		require.NoError(t, err)
		require.NotNil(t, v.Before)
		require.EqualValues(t, 10*time.Second, v.Before.OverNs)
		s.close()
	})
}

func TestAHistoryHasTheVerdictOfEachTime(t *testing.T) {
	var all []api.Snapshot
	began, busy := time.Now(), time.Duration(0)
	for i := range 60 {
		st := api.Stage{Pool: "a", Workers: api.Workers{Live: 1, Least: 1, Most: 1}, Queue: api.Queue{Capacity: 64}}
		if i < 30 { // of work, and thirty seconds of rest
			busy += period
			st.Queue.Length, st.Queue.OldestNs = 50, int64(period)
		}
		st.Counts.BusyNs, st.Counts.IdleNs = int64(busy), int64(time.Duration(i+1)*period-busy)
		st.Counts.OK = uint64(busy / period)
		st.Counts.Accepted = st.Counts.OK + uint64(st.Queue.Length) //nolint:gosec // it is not negative
		all = append(all, api.Snapshot{
			N: uint64(i), At: began.Add(time.Duration(i) * period), Processors: 8, Order: []string{"a"}, Stages: map[string]api.Stage{"a": st}, //nolint:gosec // i is not negative
		})
	}
	at := func(n uint64) (v api.Verdict) {
		for _, j := range judge(all) {
			if j.N <= n {
				v = j
			}
		}
		return v
	}
	require.Equal(t, "a", at(1).Stage)
	require.Equal(t, "a", at(29).Stage)
	require.Equal(t, "workers", at(29).Limit)
	require.Empty(t, at(59).Stage)
	require.Equal(t, "none", at(59).Limit)
	require.Less(t, len(judge(all)), 20, "verdicts that are alike are one")
	require.Empty(t, judge(all[:1]))
	require.Empty(t, judge(nil))
}
