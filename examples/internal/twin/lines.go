package twin

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"os"
	"strings"
)

// Lines counts the lines of code of Go files: the lines with more than white
// space and comments, without the package clause and the imports.
func Lines(files ...string) (n int, err error) {
	for _, name := range files {
		source, err := os.ReadFile(name)
		if err != nil {
			return 0, err
		}
		in, err := lines(name, source)
		if err != nil {
			return 0, err
		}
		n += in
	}
	return n, nil
}

func lines(name string, source []byte) (n int, err error) {
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, name, source, parser.ParseComments)
	if err != nil {
		return 0, fmt.Errorf("twin: %w", err)
	}
	begin := tree.Name.End() // of the code
	for _, d := range tree.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.IMPORT {
			begin = g.End()
		}
	}
	var s scanner.Scanner
	file := token.NewFileSet().AddFile(name, set.Base(), len(source)) // a copy: the scanner adds lines
	s.Init(file, source, nil, 0)
	used := map[int]bool{}
	skip := set.Position(begin).Offset
	for {
		pos, tok, text := s.Scan()
		if tok == token.EOF {
			return len(used), nil
		}
		at := file.Position(pos)
		if at.Offset < skip || tok == token.SEMICOLON && text == "\n" {
			continue
		}
		for i := range strings.Count(text, "\n") + 1 { // a raw string may have several
			used[at.Line+i] = true
		}
	}
}
