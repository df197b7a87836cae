package stage_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// tenantJob is a command of a tenant.
type tenantJob struct {
	tenant int
	left   *int
	done   chan struct{}
}

func tenantOf(j *tenantJob) int { return j.tenant }

func weightOf(tenant int) int { return 1 + tenant%3 }

// BenchmarkFair compares three stages in a row that tenants share with three plain ones.
func BenchmarkFair(b *testing.B) {
	for _, tenants := range []int{1, 10, 1000} {
		for _, kind := range []struct {
			name string
			opts []stage.Option
		}{
			{"plain", nil},
			{"fair", []stage.Option{stage.Fair(tenantOf, nil, 0)}},
			{"weights", []stage.Option{stage.Fair(tenantOf, weightOf, 0)}},
			{"bounded", []stage.Option{stage.Fair(tenantOf, weightOf, 2)}},
		} {
			for _, many := range []int{1, 64} {
				b.Run(fmt.Sprintf("tenants=%d/by=%s/many=%d", tenants, kind.name, many), func(b *testing.B) {
					benchFair(b, tenants, many, kind.opts)
				})
			}
		}
	}
}

func benchFair(b *testing.B, tenants, many int, opts []stage.Option) {
	b.Helper()
	left, done := b.N, make(chan struct{})
	opts = append(opts, stage.Workers(1, 1), stage.Capacity(8192))
	next := stage.Func("3", func(_ context.Context, j *tenantJob) behaviour.Outcome {
		if *j.left--; *j.left == 0 {
			close(j.done)
		}
		return behaviour.OK(nil)
	}, opts...)
	parts := []pipeline.Part{next, pipeline.Control(policy.Fixed{})}
	for i := range 2 {
		to := next
		next = stage.Func(strconv.Itoa(2-i), func(_ context.Context, j *tenantJob) behaviour.Outcome { return behaviour.Forward(to, j) }, opts...)
		parts = append(parts, next)
	}
	p, err := pipeline.New("fair", parts...)
	if err != nil {
		b.Fatal(err)
	}
	if err := p.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	jobs := make([]*tenantJob, max(tenants, many))
	for i := range jobs {
		jobs[i] = &tenantJob{i % tenants, &left, done}
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := 0; i < b.N; {
		if many == 1 {
			err = next.Submit(b.Context(), jobs[i%len(jobs)])
			i++
		} else {
			at := i % (len(jobs) - many + 1)
			n := min(many, b.N-i)
			_, err = next.SubmitAll(b.Context(), jobs[at:at+n]...)
			i += n
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	<-done
	b.StopTimer()
	if err := p.Stop(context.Background()); err != nil {
		b.Fatal(err)
	}
}
