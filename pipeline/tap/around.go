package tap

import (
	"context"
	"reflect"
	"time"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/stage/headers"
)

// view is a command that a watch shows when its outcome is known.
type view struct {
	watch *Watch
	event Event
}

// watched calls a handler, and shows the command that it was given.
func (t *Tap) watched(ctx context.Context, watches []*Watch, stage string, cmd any, next behaviour.Func[any]) (o behaviour.Outcome) {
	if reflect.ValueOf(cmd).Kind() == reflect.Slice {
		return t.watchedSlice(ctx, watches, stage, cmd, next)
	}
	views := viewsOf(ctx, watches, stage, cmd)
	run := run{began: time.Now()}
	defer func() { // also if the handler crashes
		run.took = time.Since(run.began)
		for _, v := range views {
			v.show(run, o)
		}
	}()
	o = next(ctx, cmd)
	run.returned = true
	return o
}

// run is one call of a handler.
type run struct {
	began    time.Time
	took     time.Duration
	returned bool
}

// watchedSlice is watched for a slice. That is a command, or a batch of
// commands: the outcome says so. The middleware is not told, so a batch is
// looked at when it has been handled.
func (t *Tap) watchedSlice(ctx context.Context, watches []*Watch, stage string, cmd any, next behaviour.Func[any]) (o behaviour.Outcome) {
	run := run{began: time.Now()}
	defer func() {
		run.took = time.Since(run.began)
		outcomes, batch := o.Result().([]behaviour.Outcome)
		if batch {
			t.batches.Store(stage, true)
		} else if _, batch = t.batches.Load(stage); !batch {
			outcomes = []behaviour.Outcome{o}
		}
		contexts := headers.Batch(ctx)
		for i := range members(cmd, batch) {
			one := o // of the whole batch, if it crashed or failed
			if i < len(outcomes) {
				one = outcomes[i]
			}
			for _, v := range viewsOf(contextOf(ctx, contexts, i), watches, stage, member(cmd, batch, i)) {
				v.event.Batch = members(cmd, batch)
				v.show(run, one)
			}
		}
	}()
	o = next(ctx, cmd)
	run.returned = true
	return o
}

// members returns how many commands there are in a slice.
func members(cmd any, batch bool) int {
	if !batch {
		return 1
	}
	return reflect.ValueOf(cmd).Len()
}

func member(cmd any, batch bool, i int) any {
	if !batch {
		return cmd
	}
	return reflect.ValueOf(cmd).Index(i).Interface()
}

// viewsOf returns the views of the watches that show a command.
func viewsOf(ctx context.Context, watches []*Watch, stage string, cmd any) (views []view) {
	for _, w := range watches {
		w.guard(func() {
			if w.wants(ctx, stage, cmd) {
				views = append(views, view{w, Event{Stage: stage, Command: w.show(cmd), Attempt: behaviour.Attempt(ctx), Batch: 1}})
			}
		})
	}
	return views
}

// show completes and shows a view.
func (v view) show(r run, o behaviour.Outcome) {
	e := v.event
	e.At, e.Took, e.Crashed = r.began, r.took, !r.returned
	if r.returned {
		e.Kind, e.Err = o.Kind(), o.Err()
	}
	if next := o.Next(); next != nil {
		e.Next = next.Name()
	}
	v.watch.guard(func() { v.watch.send(e) })
}
