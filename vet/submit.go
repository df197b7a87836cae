package vet

import (
	"go/ast"
	"go/types"
	"slices"

	"golang.org/x/tools/go/analysis"
)

// Submit reports calls that hand work over and whose error is ignored: a command
// that is refused is lost then, and no letter says so. An assignment to the
// blank identifier is reported, too, without a reason in a comment.
var Submit = &analysis.Analyzer{
	Name: "goldasubmit",
	Doc:  "report ignored errors of calls that hand work over: a command that was refused is lost",
	URL:  "https://pkg.go.dev/github.com/golda-dev/golda/vet",
	Run:  runSubmit,
}

// handsOver are the methods and functions that hand work over, by package and
// name. The last result of each is an error.
var handsOver = map[string][]string{
	module + "stage":            {"Submit", "SubmitAll", "Ask", "Call"},
	module + "behaviour":        {"Submit", "Emit"},
	module + "pipeline/letters": {"Retry", "RetryAll", "RetryAs", "Import"},
	module + "adapter/nats":     {"Publish", "PublishOnce", "Retry", "Drop"},
}

func runSubmit(p *analysis.Pass) (any, error) {
	x := newPass(p)
	ignored := func(call *ast.CallExpr) {
		f, pkg := x.callee(call)
		if f == nil || !slices.Contains(handsOver[pkg], f.Name()) || !failsLast(f) {
			return
		}
		x.report(call, "the error of %s is ignored: a command that is refused is lost", f.Name())
	}
	for n := range x.all().PreorderSeq((*ast.ExprStmt)(nil), (*ast.GoStmt)(nil), (*ast.DeferStmt)(nil), (*ast.AssignStmt)(nil)) {
		switch n := n.(type) {
		case *ast.ExprStmt:
			if call, ok := ast.Unparen(n.X).(*ast.CallExpr); ok {
				ignored(call)
			}
		case *ast.GoStmt:
			ignored(n.Call)
		case *ast.DeferStmt:
			ignored(n.Call)
		case *ast.AssignStmt:
			if call, ok := ast.Unparen(n.Rhs[0]).(*ast.CallExpr); ok && len(n.Rhs) == 1 && isBlank(n.Lhs[len(n.Lhs)-1]) {
				ignored(call)
			}
		}
	}
	return nil, nil
}

// failsLast reports whether the last result of a function is an error.
func failsLast(f *types.Func) bool {
	results := f.Signature().Results()
	return results.Len() > 0 && types.Identical(results.At(results.Len()-1).Type(), types.Universe.Lookup("error").Type())
}

func isBlank(x ast.Expr) bool {
	id, ok := x.(*ast.Ident)
	return ok && id.Name == "_"
}
