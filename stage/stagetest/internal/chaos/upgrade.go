package chaos

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/stagetest"
)

// upgrade runs another version of the same behaviour at a site's stage.
func (r *run) upgrade(s *site) bool {
	if s.Keyed || s.Window.Kind != "" { // they cannot be upgraded
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, err := s.stage.Upgrade(ctx, s.fresh)
	if err != nil && !isAny(err, stage.ErrStopped, pipeline.ErrStopped, context.DeadlineExceeded) {
		r.breachf(Progress, "stage %s was not upgraded: %v", name(s.index), err)
	}
	return err == nil
}

// drains are what the plan has drained and not yet reopened.
type drains struct {
	stages []pipeline.Part
	whole  bool              // the pipeline, too
	calls  []<-chan struct{} // each is closed when the call of Drain has returned
}

// drain drains stages, or the whole pipeline if there are none, and does not
// wait until that is done.
func (r *run) drain(stages ...pipeline.Part) bool {
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		_ = r.pipe.Drain(context.Background(), stages...)
	}()
	d := &r.drained
	d.stages, d.calls, d.whole = append(d.stages, stages...), append(d.calls, returned), d.whole || len(stages) == 0
	return true
}

// reopen opens the drained stages again. After a drain of the whole pipeline it
// opens all, because a drained stage holds back for good the commands that an
// open stage has for it. A drain of the pipeline alone is not ended.
//
// A call of Drain may begin after that of Reopen, and then it would close the
// stages for good. So reopen goes on until it has opened them when all calls
// had returned.
func (r *run) reopen() bool {
	d := r.drained
	if len(d.stages) == 0 {
		return false
	}
	r.drained = drains{}
	stages := d.stages
	if d.whole {
		stages = nil
	}
	for {
		over := d.over()
		if !r.carriedOut(r.pipe.Reopen(stages...)) || over {
			return true
		}
		time.Sleep(100 * time.Microsecond)
	}
}

// over reports whether all calls of Drain have returned.
func (d *drains) over() bool {
	for _, returned := range d.calls {
		select {
		case <-returned:
		default:
			return false
		}
	}
	return true
}

// submitMany submits several commands at once, without tickets.
func (r *run) submitMany(rnd *rand.Rand, to *site, n int) {
	cmds := make([]command, n)
	for i := range cmds {
		cmds[i] = r.newCommand(r.plan.Graph.Hops)
		to.expect(cmds[i])
	}
	ctx, cancel := r.submitContext(rnd)
	defer cancel()
	accepted, err := to.stage.SubmitAll(ctx, cmds...)
	r.accepted.Add(uint64(accepted))
	for _, cmd := range cmds[accepted:] {
		to.expectNot(cmd)
	}
	switch {
	case (err == nil) != (accepted == n):
		r.breachf(OneEnd, "of %d commands %d were accepted, with the error %v", n, accepted, err)
	case err != nil && !refusal(err):
		r.breachf(OneEnd, "of %d commands the one after %d was refused for an unknown reason: %v", n, accepted, err)
	}
}

// fresh makes an instance of the site's behaviour.
func (s *site) fresh() behaviour.Behaviour[command] {
	if s.Flow != "" {
		return s.freshFlow()
	}
	if s.Suspends {
		return newSuspender(s)
	}
	if s.States {
		return s.stateful(0, stagetest.Wrap[command](s.injector, &nodeBehaviour{site: s}))
	}
	if s.Batcher {
		return stagetest.Wrap[command](s.injector, &nodeBatcher{nodeBehaviour{site: s}})
	}
	return stagetest.Wrap[command](s.injector, &nodeBehaviour{site: s})
}
