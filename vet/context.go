package vet

import (
	"go/ast"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/analysis"
)

// Context reports handlers that keep their context: in a variable or a field
// outside of them, in a channel, or in a goroutine for which they do not wait.
// The context of a handler ends when the handler returns, and commands that are
// emitted with it later are refused (behaviour.ErrNoWorker). Give later work to
// a stage, or, if it emits no command, a context of context.WithoutCancel.
var Context = &analysis.Analyzer{
	Name: "goldacontext",
	Doc:  "report handlers that keep their context after they have returned",
	URL:  "https://pkg.go.dev/github.com/golda-dev/golda/vet",
	Run:  runContext,
}

func runContext(p *analysis.Pass) (any, error) {
	x := newPass(p)
	for _, h := range x.handlers() {
		ctx := x.contextOf(h)
		if ctx == nil {
			continue
		}
		is := func(e ast.Expr) bool {
			id, ok := ast.Unparen(e).(*ast.Ident)
			return ok && p.TypesInfo.Uses[id] == ctx
		}
		waits := calls(h.body, "Wait") || contains(h.body, isReceive)
		ast.Inspect(h.body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				for i, value := range n.Rhs {
					if len(n.Lhs) != len(n.Rhs) || !is(value) || isBlank(n.Lhs[i]) {
						continue
					}
					if v := x.variable(n.Lhs[i]); v != nil && v != ctx && h.outside(v) {
						x.report(n, "the handler keeps its context in %s: it ends when the handler returns", v.Name())
					}
				}
			case *ast.SendStmt:
				if is(n.Value) {
					x.report(n, "the handler sends its context: it ends when the handler returns")
				}
			case *ast.GoStmt:
				if !waits && contains(n.Call, func(n ast.Node) bool { e, ok := n.(ast.Expr); return ok && is(e) }) && !calls(n.Call, "WithoutCancel") {
					x.report(n, "a goroutine for which the handler does not wait has its context: it ends when the handler returns")
				}
				return false
			}
			return true
		})
	}
	return nil, nil
}

// contextOf returns the first parameter of a handler, nil if it has no name.
func (p *pass) contextOf(h handler) types.Object {
	if params := h.typ.Params.List; len(params) > 0 && len(params[0].Names) > 0 {
		return p.TypesInfo.Defs[params[0].Names[0]]
	}
	return nil
}

// isReceive reports whether a node waits for a channel.
func isReceive(n ast.Node) bool {
	x, ok := n.(*ast.UnaryExpr)
	return ok && x.Op == token.ARROW
}
