package vet

import (
	"go/ast"
	"go/types"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/inspector"
)

// Port reports ports that a package makes in a variable of its own, and hands
// commands to, but never wires: handlers fail with behaviour.ErrUnwired. A port
// that the package gives away, as an argument, a result or a field, may be wired
// elsewhere, and is not reported.
var Port = &analysis.Analyzer{
	Name: "goldaport",
	Doc:  "report ports that are used and never wired",
	URL:  "https://pkg.go.dev/github.com/golda-dev/golda/vet",
	Run:  runPort,
}

func runPort(p *analysis.Pass) (any, error) {
	x := newPass(p)
	made, wired, sent := x.portsMade(), map[types.Object]bool{}, map[types.Object]bool{}
	for n, stack := range withStack[*ast.Ident](x.all()) {
		port := p.TypesInfo.Uses[n]
		if _, ok := made[port]; !ok {
			continue
		}
		switch x.useOf(n, stack) {
		case sends:
			sent[port] = true
		case reads:
		default:
			wired[port] = true
		}
	}
	for port, at := range made {
		if sent[port] && !wired[port] && !port.Exported() {
			x.report(at, "the port %s is never wired: give New pipeline.Wire(%[1]s, next)", port.Name())
		}
	}
	return nil, nil
}

// portsMade returns the variables that are made by behaviour.NewPort, with the
// places.
func (p *pass) portsMade() map[types.Object]ast.Node {
	made := make(map[types.Object]ast.Node)
	note := func(names []*ast.Ident, values []ast.Expr) {
		for i, value := range values {
			call, ok := ast.Unparen(value).(*ast.CallExpr)
			if ok && len(names) == len(values) && p.isCall(call, module+"behaviour", "NewPort") {
				if v := p.TypesInfo.Defs[names[i]]; v != nil {
					made[v] = names[i]
				}
			}
		}
	}
	for n := range p.all().PreorderSeq((*ast.AssignStmt)(nil), (*ast.ValueSpec)(nil)) {
		switch n := n.(type) {
		case *ast.ValueSpec:
			note(n.Names, n.Values)
		case *ast.AssignStmt:
			names := make([]*ast.Ident, len(n.Lhs))
			for i, to := range n.Lhs {
				names[i], _ = to.(*ast.Ident)
				if names[i] == nil {
					names[i] = new(ast.Ident)
				}
			}
			note(names, n.Rhs)
		}
	}
	return made
}

// use is how a package uses a port.
type use int

const (
	elsewhere use = iota // it may be wired there
	sends                // commands
	reads                // its name, or whether it is wired
)

// useOf says how an identifier of a port is used.
func (p *pass) useOf(id *ast.Ident, stack []ast.Node) use {
	parent := stack[len(stack)-2]
	if sel, ok := parent.(*ast.SelectorExpr); ok && sel.X == id {
		switch sel.Sel.Name {
		case "Submit":
			return sends
		case "Name", "Wired":
			return reads
		}
		return elsewhere // Connect, or a later method
	}
	if call, ok := parent.(*ast.CallExpr); ok && (p.isCall(call, module+"behaviour", "Emit", "Forward", "ForwardAll")) {
		return sends
	}
	return elsewhere
}

// withStack visits all nodes of a type with the nodes around them, the node
// itself the last.
func withStack[N ast.Node](in *inspector.Inspector) func(yield func(N, []ast.Node) bool) {
	return func(yield func(N, []ast.Node) bool) {
		goesOn := true
		in.WithStack(nil, func(n ast.Node, push bool, stack []ast.Node) bool {
			if x, ok := n.(N); ok && push && goesOn {
				goesOn = yield(x, stack)
			}
			return goesOn
		})
	}
}
