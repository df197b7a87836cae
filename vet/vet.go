package vet

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/inspector"
	"golang.org/x/tools/go/types/typeutil"
)

// Analyzers are all analyzers. The slice must not be changed.
var Analyzers = []*analysis.Analyzer{Submit, Captured, Context, Port, Shared}

// module is the path of the packages whose use is analyzed.
const module = "github.com/golda-dev/golda/"

// makers are the functions that make a stage, or a flow, of a handler.
var makers = map[string][]string{
	module + "stage": {"Func", "Sink", "Map", "FlatMap", "Filter", "FlowOf", "Coroutine", "New"},
}

// pass is one run of an analyzer on a package.
type pass struct {
	*analysis.Pass

	accepted map[string]map[int]bool // the lines with the mark, by file
}

// mark is the comment that accepts a line.
const mark = "//golda:ok"

func newPass(p *analysis.Pass) *pass {
	x := &pass{p, make(map[string]map[int]bool)}
	for _, f := range p.Files {
		for _, group := range f.Comments {
			for _, c := range group.List {
				if reason, ok := strings.CutPrefix(c.Text, mark); ok && strings.TrimSpace(reason) != "" {
					at := p.Fset.Position(c.Pos())
					if x.accepted[at.Filename] == nil {
						x.accepted[at.Filename] = make(map[int]bool)
					}
					x.accepted[at.Filename][at.Line] = true
				}
			}
		}
	}
	return x
}

// report reports a mistake, unless its line is accepted.
func (p *pass) report(at ast.Node, format string, args ...any) {
	where := p.Fset.Position(at.Pos())
	if !p.accepted[where.Filename][where.Line] {
		p.Reportf(at.Pos(), format, args...)
	}
}

// all returns the syntax of the package.
func (p *pass) all() *inspector.Inspector { return inspector.New(p.Files) }

// callee returns the function or method that a call names, if it is of a
// package of the module, and the path of that.
func (p *pass) callee(call *ast.CallExpr) (f *types.Func, pkg string) {
	f, _ = typeutil.Callee(p.TypesInfo, call).(*types.Func)
	if f == nil || f.Pkg() == nil || !strings.HasPrefix(f.Pkg().Path()+"/", module) {
		return nil, ""
	}
	return f, f.Pkg().Path()
}

// isCall reports whether a call is of one of some functions of a package.
func (p *pass) isCall(call *ast.CallExpr, pkg string, names ...string) bool {
	f, of := p.callee(call)
	return f != nil && of == pkg && f.Signature().Recv() == nil && slices.Contains(names, f.Name())
}

// handler is a function that a stage calls for its commands.
type handler struct {
	maker *ast.CallExpr // that makes the stage
	body  *ast.BlockStmt
	typ   *ast.FuncType
}

// handlers returns the handlers that are written where their stage is made, or
// as functions of the package.
func (p *pass) handlers() (all []handler) {
	declared := make(map[types.Object]*ast.FuncDecl)
	for d := range inspector.All[*ast.FuncDecl](p.all()) {
		declared[p.TypesInfo.Defs[d.Name]] = d
	}
	for call := range inspector.All[*ast.CallExpr](p.all()) {
		for pkg, names := range makers {
			if !p.isCall(call, pkg, names...) || len(call.Args) < 2 {
				continue
			}
			switch f := ast.Unparen(call.Args[1]).(type) {
			case *ast.FuncLit:
				all = append(all, handler{call, f.Body, f.Type})
			case *ast.Ident:
				if d := declared[p.TypesInfo.Uses[f]]; d != nil && d.Body != nil {
					all = append(all, handler{call, d.Body, d.Type})
				}
			}
		}
	}
	return all
}

// option returns the call of an option of package stage among the arguments of
// the handler's maker.
func (p *pass) option(h handler, name string) *ast.CallExpr {
	for _, arg := range h.maker.Args {
		if call, ok := ast.Unparen(arg).(*ast.CallExpr); ok && p.isCall(call, module+"stage", name) {
			return call
		}
	}
	return nil
}

// outside reports whether a variable is declared outside of a handler.
func (h handler) outside(v *types.Var) bool {
	return v.Pos() < h.body.Pos() && !within(h.typ, v.Pos()) || v.Pos() > h.body.End()
}

// within reports whether a position is within a node.
func within(n ast.Node, at token.Pos) bool { return n.Pos() <= at && at < n.End() }

// variable returns the variable at the root of an expression such as x, x.f or
// x[i], if it is one.
func (p *pass) variable(x ast.Expr) *types.Var {
	for {
		switch e := ast.Unparen(x).(type) {
		case *ast.Ident:
			v, _ := p.TypesInfo.ObjectOf(e).(*types.Var)
			return v
		case *ast.SelectorExpr:
			x = e.X
		case *ast.IndexExpr:
			x = e.X
		case *ast.StarExpr:
			x = e.X
		default:
			return nil
		}
	}
}

// contains reports whether a node within another one matches.
func contains(n ast.Node, match func(ast.Node) bool) (found bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		found = found || n != nil && match(n)
		return !found
	})
	return found
}

// calls reports whether a node has a call of a function or method of one of the
// names.
func calls(n ast.Node, names ...string) bool {
	return contains(n, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return false
		}
		switch f := ast.Unparen(call.Fun).(type) {
		case *ast.SelectorExpr:
			return slices.Contains(names, f.Sel.Name)
		case *ast.Ident:
			return slices.Contains(names, f.Name)
		}
		return false
	})
}
