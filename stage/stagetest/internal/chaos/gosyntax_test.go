package chaos_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/stage/overflow"
	"github.com/golda-dev/golda/stage/stagetest"
	"github.com/golda-dev/golda/stage/stagetest/internal/chaos"
	"github.com/golda-dev/golda/supervisor"
)

// named are the constants that the Go text of a plan may name.
var named = map[string]any{
	"chaos.KillWorker": chaos.KillWorker, "chaos.KillSupervisor": chaos.KillSupervisor, "chaos.KillControlLoop": chaos.KillControlLoop,
	"chaos.KillPool": chaos.KillPool, "chaos.KillFeed": chaos.KillFeed, "chaos.Swap": chaos.Swap, "chaos.Rescale": chaos.Rescale,
	"chaos.Pause": chaos.Pause, "chaos.Resume": chaos.Resume, "chaos.AddStage": chaos.AddStage, "chaos.RemoveStage": chaos.RemoveStage,
	"chaos.RetryLetters": chaos.RetryLetters, "chaos.Drain": chaos.Drain, "chaos.Upgrade": chaos.Upgrade,
	"chaos.DrainStage": chaos.DrainStage, "chaos.Reopen": chaos.Reopen, "chaos.Rewire": chaos.Rewire,
	"chaos.KillProcess": chaos.KillProcess,
	"chaos.Softly":      chaos.Softly, "chaos.Drained": chaos.Drained, "chaos.Hard": chaos.Hard, "chaos.Soon": chaos.Soon,
	"chaos.Twice": chaos.Twice, "chaos.Exhausted": chaos.Exhausted,
	"overflow.Wait": overflow.Wait, "overflow.Reject": overflow.Reject, "overflow.DropNewest": overflow.DropNewest, "overflow.DropOldest": overflow.DropOldest,
	"supervisor.RestForOne": supervisor.RestForOne, "supervisor.OneForOne": supervisor.OneForOne, "supervisor.OneForAll": supervisor.OneForAll,
	"time.Second": time.Second, "time.Millisecond": time.Millisecond, "time.Microsecond": time.Microsecond,
}

// evaluate evaluates the Go text of a value of that type, as a compiler would.
func evaluate(e ast.Expr, of reflect.Type) (reflect.Value, error) {
	v := reflect.New(of).Elem()
	switch e := e.(type) {
	case *ast.CompositeLit:
		return v, composite(e, v)
	case *ast.SelectorExpr:
		c, ok := named[fmt.Sprintf("%s.%s", e.X, e.Sel)]
		if !ok || reflect.TypeOf(c) != of {
			return v, fmt.Errorf("%s.%s is no %s", e.X, e.Sel, of)
		}
		return reflect.ValueOf(c), nil
	case *ast.BinaryExpr:
		n, err := evaluate(e.X, of)
		unit, err2 := evaluate(e.Y, of)
		if err != nil || err2 != nil || e.Op != token.MUL {
			return v, errors.Join(err, err2, fmt.Errorf("operator %s", e.Op))
		}
		v.SetInt(n.Int() * unit.Int())
		return v, nil
	case *ast.Ident:
		is, err := strconv.ParseBool(e.Name)
		v.SetBool(is)
		return v, err
	case *ast.BasicLit:
		return v, literal(e.Value, v)
	default:
		return v, fmt.Errorf("%T", e)
	}
}

func literal(text string, v reflect.Value) error {
	switch v.Kind() {
	case reflect.String:
		s, err := strconv.Unquote(text)
		v.SetString(s)
		return err
	case reflect.Float64:
		f, err := strconv.ParseFloat(text, 64)
		v.SetFloat(f)
		return err
	case reflect.Uint64:
		n, err := strconv.ParseUint(text, 10, 64)
		v.SetUint(n)
		return err
	default:
		n, err := strconv.ParseInt(text, 10, 64)
		v.SetInt(n)
		return err
	}
}

func composite(e *ast.CompositeLit, v reflect.Value) error {
	for _, element := range e.Elts {
		pair, ok := element.(*ast.KeyValueExpr)
		if !ok {
			one, err := evaluate(element, v.Type().Elem())
			if err != nil {
				return err
			}
			v.Set(reflect.Append(v, one))
			continue
		}
		field := v.FieldByName(fmt.Sprint(pair.Key))
		if !field.IsValid() {
			return fmt.Errorf("%s has no field %s", v.Type(), pair.Key)
		}
		value, err := evaluate(pair.Value, field.Type())
		if err != nil {
			return fmt.Errorf("%s: %w", pair.Key, err)
		}
		field.Set(value)
	}
	return nil
}

// A plan that failed is pasted into a test as it was printed.
func TestTheGoTextOfAPlanIsThatPlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		plan := chaos.Plans().Draw(t, "plan")
		text := plan.GoString()
		e, err := parser.ParseExpr(text)
		require.NoError(t, err, text)
		v, err := evaluate(e, reflect.TypeFor[chaos.Plan]())
		require.NoError(t, err, text)
		again := v.Interface().(chaos.Plan)
		require.Equal(t, plan.String(), again.String(), text)
		require.Equal(t, text, again.GoString())
	})
}

func TestTheGoTextOfAPlanNamesWhatGoHasNamesFor(t *testing.T) {
	p := line(func(p *chaos.Plan) {
		p.Seed, p.Strategy, p.End, p.Patience = 1<<63, supervisor.OneForAll, chaos.Hard, 1500*time.Millisecond
		p.Graph.Nodes = p.Graph.Nodes[:1]
		n := &p.Graph.Nodes[0]
		n.Next, n.Overflow, n.Faults, n.Retry.Attempts = []int{0}, overflow.DropOldest, stagetest.Faults{Panic: .05}, 3
		n.Window = chaos.Window{Kind: "by", Time: time.Second}
		p.Disturbances = []chaos.Disturbance{{At: 20, Action: chaos.Swap, Policy: "srpt"}}
		p.GroupPolicies = []string{"", "cohort"}
	})
	require.Equal(t, `chaos.Plan{Seed: 9223372036854775808, Graph: chaos.Graph{Nodes: []chaos.Node{
	chaos.Node{Next: []int{0}, Workers: chaos.Span{Fewest: 1, Most: 1}, Overflow: overflow.DropOldest, Retry: stage.RetryPolicy{Attempts: 3}, Window: chaos.Window{Kind: "by", Time: 1 * time.Second}, Faults: stagetest.Faults{Panic: 0.05}},
}, Entries: []int{0}, Hops: 3}, Policy: "fixed", GroupPolicies: []string{"", "cohort"}, Strategy: supervisor.OneForAll, Commands: 100, Submitters: 1, Disturbances: []chaos.Disturbance{
	chaos.Disturbance{At: 20, Action: chaos.Swap, Policy: "srpt"},
}, End: chaos.Hard, Patience: 1500 * time.Millisecond}`, p.GoString())
}

// The report of a stall has all that is needed to see it again, and to explain it.
func TestAPlanThatStallsPrintsItsGoTextAndTheAccountsOfItsStages(t *testing.T) {
	plan := line(func(p *chaos.Plan) {
		p.Patience = 10 * time.Millisecond
		last := &p.Graph.Nodes[2]
		last.Work, last.Capacity, last.Batch, last.Instances = 300*time.Millisecond, 1, 1, 1
		p.Graph.Nodes[0].Capacity, p.Graph.Nodes[1].Capacity = 2, 2
	})
	_, err := plan.Run()
	require.ErrorContains(t, err, plan.GoString())
	require.ErrorContains(t, err, `callers that wait for a free slot: 1`)
	require.ErrorContains(t, err, `stage "s1": 1 worker with commands to hand over, waiting for a free slot in stage "s2"`)
}
