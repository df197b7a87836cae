package pipeline_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/overflow"
	"github.com/golda-dev/golda/stage/queue"
)

// smallFirst is a command whose priority is the higher the smaller it is.
type smallFirst int

func (s smallFirst) Priority() int { return -int(s) }

func upTo(n int) (cmds []smallFirst) {
	for i := range n {
		cmds = append(cmds, smallFirst(n-i))
	}
	return cmds
}

// SubmitAll has the effect of many calls of Submit: the same commands are accepted, in the same order, and the error is the same.
func TestSubmitAllAcceptsTheSameCommandsAsManySubmits(t *testing.T) {
	const n, room = 10, 4
	rows := map[string]struct {
		opts     []stage.Option
		policy   pipeline.Part
		accepted int
		err      error
	}{
		"capacity for all":                     {opts: []stage.Option{stage.Capacity(n)}, accepted: n},
		"a full stage that waits":              {accepted: room, err: context.DeadlineExceeded},
		"a stage that refuses":                 {opts: []stage.Option{stage.Overflow(overflow.Reject)}, accepted: room, err: stage.ErrFull},
		"a stage that drops the newest":        {opts: []stage.Option{stage.Overflow(overflow.DropNewest)}, accepted: n},
		"a stage that drops the oldest":        {opts: []stage.Option{stage.Overflow(overflow.DropOldest)}, accepted: n},
		"in the order of their priority":       {opts: []stage.Option{stage.Capacity(n), stage.Discipline(queue.Priority{})}, accepted: n},
		"urgent ones, with capacity for a few": {opts: []stage.Option{stage.Discipline(queue.Priority{}), stage.Overflow(overflow.Reject)}, accepted: room, err: stage.ErrFull},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			// done is the handled commands in their order, and the error of the last one.
			done := func(submit func(context.Context, *stage.Stage[smallFirst]) (int, error)) (done []smallFirst, snap stage.Snapshot, accepted int, err error) {
				bubbled(t, func(t *testing.T) {
					s := stage.Func("s", func(_ context.Context, cmd smallFirst) behaviour.Outcome {
						done = append(done, cmd)
						return behaviour.OK(nil)
					}, append([]stage.Option{stage.Defaults(stage.Workers(1, 1), stage.Capacity(room))}, row.opts...)...)
					p := bubble(t, s)
					require.NoError(t, p.Pause(s))
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					accepted, err = submit(ctx, s)
					require.NoError(t, p.Resume(s))
					require.NoError(t, p.Stop(t.Context()))
					snap = s.Snapshot()
				})
				return done, snap, accepted, err
			}
			one, snapOne, acceptedOne, errOne := done(func(ctx context.Context, s *stage.Stage[smallFirst]) (int, error) {
				for i, cmd := range upTo(n) {
					if err := s.Submit(ctx, cmd); err != nil {
						return i, err
					}
				}
				return n, nil
			})
			all, snapAll, acceptedAll, errAll := done(func(ctx context.Context, s *stage.Stage[smallFirst]) (int, error) {
				return s.SubmitAll(ctx, upTo(n)...)
			})
			require.Equal(t, row.accepted, acceptedOne)
			require.ErrorIs(t, errOne, row.err)
			require.Equal(t, acceptedOne, acceptedAll)
			require.ErrorIs(t, errAll, row.err)
			require.Equal(t, one, all)
			require.Equal(t, snapOne.Counts.Submitted, snapAll.Counts.Submitted)
			require.Equal(t, snapOne.Reasons.Rejected, snapAll.Reasons.Rejected)
			require.Equal(t, snapOne.Reasons.Shed, snapAll.Reasons.Shed)
		})
	}
}

func TestSubmitAllIsRefusedBeforeTheStartAndAfterTheEnd(t *testing.T) {
	s := stage.Func("s", echo[smallFirst])
	n, err := s.SubmitAll(t.Context(), upTo(3)...)
	require.Zero(t, n)
	require.ErrorIs(t, err, stage.ErrNotRunning)
	p := run(t, s)
	n, err = s.SubmitAll(t.Context())
	require.Zero(t, n)
	require.NoError(t, err, "all of no commands were accepted")
	require.NoError(t, p.Stop(soon(t)))
	n, err = s.SubmitAll(t.Context(), upTo(3)...)
	require.Zero(t, n)
	require.ErrorIs(t, err, stage.ErrClosed)
}

// SubmitAll does not overtake a submitter that waits for a free slot.
func TestSubmitAllDoesNotOvertakeAWaitingSubmitter(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		var done []smallFirst
		s := stage.Func("s", func(_ context.Context, cmd smallFirst) behaviour.Outcome {
			done = append(done, cmd)
			return behaviour.OK(nil)
		}, stage.Workers(1, 1), stage.Capacity(1))
		p := bubble(t, s)
		require.NoError(t, p.Pause(s))
		go func() { assert.NoError(t, s.Submit(t.Context(), 1)) }()
		synctest.Wait()
		go func() { assert.NoError(t, s.Submit(t.Context(), 2)) }()
		synctest.Wait()
		go func() {
			_, err := s.SubmitAll(t.Context(), 3, 4, 5)
			assert.NoError(t, err)
		}()
		synctest.Wait()
		require.NoError(t, p.Resume(s))
		synctest.Wait()
		require.NoError(t, p.Stop(t.Context()))
		require.Equal(t, []smallFirst{1, 2, 3, 4, 5}, done)
	})
}
