package chaos

import (
	"context"
	"errors"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/route"
	"github.com/golda-dev/golda/stage/stagetest/internal/oracle"
)

// The kinds of flows, and of ways to choose one of their targets.
const (
	flowMap     = "map"
	flowFilter  = "filter"
	flowFlatMap = "flatmap"
	flowSink    = "sink"

	robin = "robin"
	byID  = "key"
	pick  = "pick"
)

var (
	flowKinds = []string{flowMap, flowFilter, flowFlatMap, flowSink}
	routes    = []string{"", robin, byID, pick}
)

// flow makes the stage of a node that is a flow. Its connections are made when
// all stages are.
func (s *site) flow(opts []stage.Option) *stage.Stage[command] {
	opts = append(opts, stage.Middleware(s.injectAndAccount))
	id := name(s.index)
	var f *stage.Flow[command, command]
	switch s.Flow {
	case flowMap:
		f = stage.Map(id, s.handleMap, opts...)
	case flowFilter:
		f = stage.Filter(id, s.handleFilter, opts...)
	case flowFlatMap:
		f = stage.FlatMap(id, s.handleFlatMap, opts...)
	default:
		return stage.Sink(id, s.handleSink, opts...).Stage
	}
	s.flows = f
	return f.Stage
}

// freshFlow makes another version of a flow: a behaviour that does the same
// without the flow's help.
func (s *site) freshFlow() behaviour.Behaviour[command] {
	return behaviour.Func[command](func(ctx context.Context, cmd command) behaviour.Outcome {
		var results []command
		var err error
		switch s.Flow {
		case flowMap:
			var one command
			one, err = s.handleMap(ctx, cmd)
			results = []command{one}
		case flowFilter:
			var keep bool
			if keep, err = s.handleFilter(ctx, cmd); keep {
				results = []command{cmd}
			}
		case flowFlatMap:
			err = s.handleFlatMap(ctx, cmd, func(c command) error { return s.sendOn(ctx, c) })
		default:
			err = s.handleSink(ctx, cmd)
		}
		if err != nil {
			return behaviour.Error(err)
		}
		return s.pass(ctx, results)
	})
}

// pass sends the result of a map or filter on, if there is one.
func (s *site) pass(ctx context.Context, results []command) behaviour.Outcome {
	switch {
	case len(results) == 0:
		return behaviour.OK(nil)
	case len(s.Next) == 0:
		return behaviour.OK(results[0])
	case s.pick != nil:
		return behaviour.Forward(s.next(s.pick(results[0], len(s.Next))).stage, results[0])
	}
	for n := range s.Next[1:] {
		if err := behaviour.Emit(ctx, s.next(n+1).stage, results[0]); err != nil {
			return behaviour.Error(err)
		}
	}
	return behaviour.Forward(s.next(0).stage, results[0])
}

// sendOn emits one result to all targets, or to the target that the route picks.
func (s *site) sendOn(ctx context.Context, c command) error {
	if s.pick != nil {
		return behaviour.Emit(ctx, s.next(s.pick(c, len(s.Next))).stage, c)
	}
	for n := range s.Next {
		if err := behaviour.Emit(ctx, s.next(n).stage, c); err != nil {
			return err
		}
	}
	return nil
}

// connect connects a flow with its targets.
func (s *site) connect() {
	if s.flows == nil || len(s.Next) == 0 {
		return
	}
	targets := s.targets(s.Next)
	switch s.Route {
	case robin:
		s.pick = s.picked(route.RoundRobin[command](), s.Next)
	case byID:
		s.pick = s.picked(route.ByKey(keyOf), s.Next)
	case pick:
		s.pick = s.picked(func(c command, n int) int { return int(oracle.Mix(c.key()) % uint64(n)) }, s.Next)
	default:
		s.flows.To(targets[0], targets[1:]...)
		return
	}
	s.flows.Route(s.pick, targets...)
}

// targets returns the stages of nodes.
func (s *site) targets(nodes []int) []behaviour.Target[command] {
	targets := make([]behaviour.Target[command], len(nodes))
	for i, n := range nodes {
		targets[i] = s.run.sites[n].stage
	}
	return targets
}

// picked notes which of the nodes a route has picked.
func (s *site) picked(by func(c command, n int) int, nodes []int) func(c command, n int) int {
	return func(c command, n int) int {
		s.run.intact(name(s.index)+", its route", c)
		i := by(c, n)
		s.run.sites[nodes[i]].expect(c)
		return i
	}
}

// injectAndAccount is the innermost middleware of a flow: the faults that other
// sites have in their behaviours.
func (s *site) injectAndAccount(ctx context.Context, name string, cmd any, next behaviour.Func[any]) behaviour.Outcome {
	o := s.injector.Middleware(ctx, name, cmd, next)
	s.run.emitted(name, o.Err())
	if errors.Is(o.Err(), stage.ErrMaxInFlight) && behaviour.Attempt(ctx) < s.Retry.Attempts {
		s.expect(cmd.(command)) // the next try calls the handler again
	}
	if !s.surrounded() {
		s.account(o)
	}
	return o
}

// handleMap has one result for each command, whatever its hops.
func (s *site) handleMap(ctx context.Context, cmd command) (command, error) {
	defer s.note(cmd)()
	s.work(ctx)
	next := cmd.onward()
	s.sends(next)
	return next, nil
}

// handleFilter keeps three commands of four.
func (s *site) handleFilter(ctx context.Context, cmd command) (bool, error) {
	defer s.note(cmd)()
	s.work(ctx)
	keep := oracle.Mix(cmd.key()+5)%4 > 0
	if keep {
		s.sends(cmd)
	}
	return keep, nil
}

// handleFlatMap has no result for a command without hops, one for most, and two
// for commands that may fan out.
func (s *site) handleFlatMap(ctx context.Context, cmd command, emit func(command) error) error {
	defer s.note(cmd)()
	s.work(ctx)
	if cmd.Hops == 0 {
		return nil
	}
	next := cmd.onward()
	all := []command{next}
	if cmd.Part == 0 || s.run.plan.Fans {
		second := next
		second.Part = s.part(next, len(s.Next))
		all = append(all, second.sealed())
	}
	for _, c := range all {
		if err := emit(c); err != nil {
			return err
		}
	}
	for _, c := range all { // they leave when the handler has returned
		s.sends(c)
	}
	return nil
}

// handleSink ends a command.
func (s *site) handleSink(ctx context.Context, cmd command) error {
	defer s.note(cmd)()
	s.work(ctx)
	return nil
}

// sends notes that a result goes to all targets; a route notes the target that
// it picks.
func (s *site) sends(cmd command) {
	if s.Route != "" {
		return
	}
	for i := range s.Next {
		s.next(i).expect(cmd)
	}
}

// next returns the site that the n-th connection leads to.
func (s *site) next(n int) *site { return s.run.sites[s.Next[n]] }

// copies reports whether a plan's commands may be at several stages at once
// without being parts, or at one stage twice.
func (p Plan) copies() bool {
	if p.Middleware.Again > 0 {
		return true
	}
	for _, n := range p.Graph.Nodes {
		if n.Window.Kind != "" || n.Flow != "" && n.Route == "" && len(n.Next) > 1 || n.Middleware.Again > 0 || n.Flow == flowFlatMap {
			return true
		}
	}
	return false
}
