package main

import (
	"os"

	"golang.org/x/tools/go/analysis/multichecker"

	"github.com/golda-dev/golda/vet"
)

// vetCommand reports mistakes in programs; see package vet.
type vetCommand struct {
	Args []string `arg:"" passthrough:"" help:"Packages, such as ./..., and flags of the analyzers."`
}

// Run has the analyzers read the arguments. It ends the process.
func (c *vetCommand) Run() error {
	os.Args = append([]string{"golda vet"}, c.Args...)
	multichecker.Main(vet.Analyzers...)
	return nil
}
