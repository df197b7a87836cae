package vet

import (
	"fmt"
	"go/ast"
	"go/types"
	"slices"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/inspector"
	"golang.org/x/tools/go/types/typeutil"
)

// Shared reports handlers that wait (for a timer, the network, a database, a
// program, the answer of another stage) in a stage of a group: the workers of a
// group are shared, so the other stages wait, too. Such a stage belongs outside
// of the group. Reading a file is not reported.
var Shared = &analysis.Analyzer{
	Name: "goldashared",
	Doc:  "report handlers that block in a group, whose workers other stages need",
	URL:  "https://pkg.go.dev/github.com/golda-dev/golda/vet",
	Run:  runShared,
}

// blocks are functions and methods that wait, by package, and by the name of
// their type if they are methods.
var blocks = map[string][]string{
	"time":           {"Sleep"},
	"net":            {"Dial", "DialTimeout"},
	"net/http":       {"Get", "Head", "Post", "PostForm", "Client.Do", "Client.Get", "Client.Head", "Client.Post", "Client.PostForm"},
	"database/sql":   {"DB.Query", "DB.QueryContext", "DB.QueryRow", "DB.QueryRowContext", "DB.Exec", "DB.ExecContext", "DB.PingContext", "Tx.ExecContext", "Tx.QueryContext"},
	"os/exec":        {"Cmd.Run", "Cmd.Output", "Cmd.CombinedOutput", "Cmd.Wait"},
	"sync":           {"WaitGroup.Wait", "Cond.Wait"},
	module + "stage": {"Call", "Ticket.Wait"},
}

func runShared(p *analysis.Pass) (any, error) {
	x := newPass(p)
	grouped := x.grouped()
	for _, h := range x.handlers() {
		group, ok := grouped[h.maker]
		if !ok {
			continue
		}
		ast.Inspect(h.body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncLit, *ast.GoStmt:
				return false // it may run elsewhere
			case *ast.CallExpr:
				if f, ok := typeutil.Callee(p.TypesInfo, n).(*types.Func); ok && waits(f) {
					x.report(n, "%s waits, and the handler's stage shares the workers of %s: leave the stage out of the group", nameOf(f), group)
				}
			}
			return true
		})
	}
	return nil, nil
}

// grouped returns the calls that make stages of a group, with the group's name.
func (p *pass) grouped() map[*ast.CallExpr]string {
	of := make(map[types.Object]*ast.CallExpr) // the call that makes the value of a variable
	for n := range inspector.All[*ast.AssignStmt](p.all()) {
		for i, value := range n.Rhs {
			if call, ok := ast.Unparen(value).(*ast.CallExpr); ok && len(n.Lhs) == len(n.Rhs) {
				if id, ok := n.Lhs[i].(*ast.Ident); ok {
					of[p.TypesInfo.ObjectOf(id)] = call
				}
			}
		}
	}
	all := make(map[*ast.CallExpr]string)
	for call := range inspector.All[*ast.CallExpr](p.all()) {
		if !p.isCall(call, module+"pipeline", "Group") || len(call.Args) < 4 {
			continue
		}
		group := "the group"
		if name := p.TypesInfo.Types[call.Args[0]].Value; name != nil {
			group = "the group " + name.String()
		}
		for _, arg := range call.Args[3:] {
			switch arg := ast.Unparen(arg).(type) {
			case *ast.Ident:
				if maker := of[p.TypesInfo.Uses[arg]]; maker != nil {
					all[maker] = group
				}
			case *ast.CallExpr:
				all[arg] = group
			}
		}
	}
	return all
}

// waits reports whether a function is one of the listed.
func waits(f *types.Func) bool {
	return f.Pkg() != nil && slices.Contains(blocks[f.Pkg().Path()], nameIn(f))
}

// nameIn returns the name of a function within its package.
func nameIn(f *types.Func) string {
	recv := f.Signature().Recv()
	if recv == nil {
		return f.Name()
	}
	t := types.Unalias(recv.Type())
	if p, ok := t.(*types.Pointer); ok {
		t = types.Unalias(p.Elem())
	}
	if n, ok := t.(*types.Named); ok {
		return n.Obj().Name() + "." + f.Name()
	}
	return f.Name()
}

func nameOf(f *types.Func) string { return fmt.Sprintf("%s.%s", f.Pkg().Name(), nameIn(f)) }
