package vet

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/analysis"
)

// Captured reports handlers that change a variable outside of them, while
// several workers may run them at once: a data race. A handler that locks
// something, or uses package atomic, is not reported, nor is a stage with
// stage.Workers(n, 1). State of a worker belongs in a behaviour of its own
// (stage.Each), and state of a key in a keyed stage.
var Captured = &analysis.Analyzer{
	Name: "goldacaptured",
	Doc:  "report handlers that change a captured variable while several workers run them: a data race",
	URL:  "https://pkg.go.dev/github.com/golda-dev/golda/vet",
	Run:  runCaptured,
}

func runCaptured(p *analysis.Pass) (any, error) {
	x := newPass(p)
	for _, h := range x.handlers() {
		if x.hasOneWorker(h) || calls(h.body, "Lock", "TryLock", "Do") {
			continue
		}
		ast.Inspect(h.body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				if n.Tok == token.DEFINE {
					return true
				}
				for _, to := range n.Lhs {
					x.changes(h, to)
				}
			case *ast.IncDecStmt:
				x.changes(h, n.X)
			}
			return true
		})
	}
	return nil, nil
}

// changes reports a variable outside of a handler that it changes.
func (p *pass) changes(h handler, to ast.Expr) {
	v := p.variable(to)
	if v == nil || isBlank(to) || !h.outside(v) || isSlot(p.TypesInfo, to) {
		return
	}
	p.report(to, "the handler changes %s, and several workers may run it at once: use stage.Each or stage.Keyed for state, a lock, or stage.Workers(1, 1)", v.Name())
}

// isSlot reports whether an expression is an element of a slice or an array:
// workers may each have their own.
func isSlot(info *types.Info, x ast.Expr) bool {
	index, ok := ast.Unparen(x).(*ast.IndexExpr)
	if !ok {
		return false
	}
	_, isMap := info.TypeOf(index.X).Underlying().(*types.Map)
	return !isMap
}

// hasOneWorker reports whether the options say that the stage has one worker.
func (p *pass) hasOneWorker(h handler) bool {
	call := p.option(h, "Workers")
	if call == nil || len(call.Args) != 2 {
		return false
	}
	most := p.TypesInfo.Types[call.Args[1]].Value
	return most != nil && constant.Compare(most, token.EQL, constant.MakeInt64(1))
}
