package engine

import (
	"fmt"
	"slices"

	"github.com/golda-dev/golda/internal/trial"
)

// Plan is what the options of an upgrade come to.
type Plan struct {
	Canary   bool
	Given    []string // the names of the options
	Limits   trial.Limits
	Key      any // a func(C) string, nil without By
	Problems []Problem
}

// Problem is one thing that is wrong with an option.
type Problem struct{ Option, Problem string }

// Give records that an option is given. It is a problem if it was given before.
func (p *Plan) Give(option string) {
	p.Check(!slices.Contains(p.Given, option), "is given twice", "%s", option)
	p.Given = append(p.Given, option)
}

// Check records a problem unless ok.
func (p *Plan) Check(ok bool, problem, option string, args ...any) {
	if !ok {
		p.Problems = append(p.Problems, Problem{fmt.Sprintf(option, args...), problem})
	}
}
