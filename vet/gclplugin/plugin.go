// Package gclplugin has the analyzers of package vet as a module plugin of
// golangci-lint. A file .custom-gcl.yml has golangci-lint built with it:
//
//	version: v2.15.0
//	plugins:
//	  - module: github.com/golda-dev/golda/vet
//	    import: github.com/golda-dev/golda/vet/gclplugin
//	    version: latest
//
// and the settings of .golangci.yml enable it:
//
//	linters:
//	  enable: [golda]
//	  settings:
//	    custom:
//	      golda: {type: module}
package gclplugin

import (
	"github.com/golangci/plugin-module-register/register"
	"golang.org/x/tools/go/analysis"

	"github.com/golda-dev/golda/vet"
)

func init() { register.Plugin("golda", New) }

// New returns the plugin. It has no settings.
func New(any) (register.LinterPlugin, error) { return plugin{}, nil }

type plugin struct{}

// BuildAnalyzers returns the analyzers.
func (plugin) BuildAnalyzers() ([]*analysis.Analyzer, error) { return vet.Analyzers, nil }

// GetLoadMode returns that the analyzers need types.
func (plugin) GetLoadMode() string { return register.LoadModeTypesInfo }
