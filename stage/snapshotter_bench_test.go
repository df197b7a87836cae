package stage_test

import (
	"context"
	"maps"
	"testing"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// plainSum, savedSum and savedMap are instances without snapshots, with one of a number, and with one of a map of a thousand
// numbers.
type (
	plainSum struct{ n int }
	savedSum struct{ plainSum }
	savedMap struct {
		plainSum
		seen map[int]int
	}
)

func (s *plainSum) HandleCommand(context.Context, *parcel) behaviour.Outcome {
	s.n++
	return behaviour.OK(nil)
}

func (s *savedSum) Snapshot() any           { return s.n }
func (s *savedSum) Restore(state any) error { s.n = state.(int); return nil }

func (s *savedMap) HandleCommand(ctx context.Context, p *parcel) behaviour.Outcome {
	if s.seen == nil {
		s.seen = map[int]int{}
	}
	s.seen[s.n%1000]++
	return s.plainSum.HandleCommand(ctx, p)
}

func (s *savedMap) Snapshot() any           { return maps.Clone(s.seen) }
func (s *savedMap) Restore(state any) error { s.seen = state.(map[int]int); return nil }

// What a snapshot costs for each command: one stage, one worker, 64 commands submitted at a time.
//
//	go test -run '^$' -bench Snapshots -count 10 ./stage | tee s.txt && benchstat -col /state s.txt
func BenchmarkSnapshots(b *testing.B) {
	one := stage.Workers(1, 1)
	key := func(*parcel) int { return 0 }
	for name, s := range map[string]*stage.Stage[*parcel]{
		"of=each/state=none":           stage.Each("s", func() *plainSum { return &plainSum{} }, one),
		"of=each/state=number":         stage.Each("s", func() *savedSum { return &savedSum{} }, one),
		"of=each/state=map":            stage.Each("s", func() *savedMap { return &savedMap{} }, one),
		"of=each/state=map-each-1000":  stage.Each("s", func() *savedMap { return &savedMap{} }, one, stage.SnapshotEvery(1000)),
		"of=keyed/state=none":          stage.Keyed("s", key, func(int) *plainSum { return &plainSum{} }, one),
		"of=keyed/state=number":        stage.Keyed("s", key, func(int) *savedSum { return &savedSum{} }, one),
		"of=keyed/state=map-each-1000": stage.Keyed("s", key, func(int) *savedMap { return &savedMap{} }, one, stage.SnapshotEvery(1000)),
	} {
		p, err := pipeline.New("p", s, pipeline.Control(policy.Fixed{}), quiet)
		if err == nil {
			err = p.Start(b.Context())
		}
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) { benchSnapshots(b, s) })
		_ = p.Stop(b.Context())
	}
}

func benchSnapshots(b *testing.B, s *stage.Stage[*parcel]) {
	cmds := make([]*parcel, 64)
	for i := range cmds {
		cmds[i] = new(parcel)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for left := b.N; left > 0; left -= len(cmds) {
		if _, err := s.SubmitAll(b.Context(), cmds[:min(left, len(cmds))]...); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := stage.Call[any](b.Context(), s, cmds[0]); err != nil { // the last one
		b.Fatal(err)
	}
}
