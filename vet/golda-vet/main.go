// Command golda-vet reports mistakes in programs with Golda that the compiler
// accepts; see package vet. It takes packages, or serves as the tool of go vet:
//
//	golda-vet ./...
//	go vet -vettool=$(which golda-vet) ./...
package main

import (
	"golang.org/x/tools/go/analysis/multichecker"

	"github.com/golda-dev/golda/vet"
)

func main() { multichecker.Main(vet.Analyzers...) }
