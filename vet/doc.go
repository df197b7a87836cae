// Package vet has analyzers for mistakes that programs with Golda make and the
// compiler accepts:
//
//	goldasubmit    the error of Submit, and of other calls that hand work over, is ignored
//	goldacaptured  a handler that several workers run changes a variable outside of it
//	goldacontext   a handler's context is kept after the handler has returned
//	goldaport      a port is used and never wired
//	goldashared    a handler blocks in a group, whose workers other stages need
//
// The command golda-vet runs them by itself or for go vet, and golda vet runs
// it:
//
//	golda vet ./...
//	go vet -vettool=$(go tool -n golda-vet) ./...
//
// golangci-lint has them as a module plugin, see package gclplugin.
//
// The analyzers report code that is wrong in nearly all cases, and are silent
// where they cannot tell. A line with the comment //golda:ok at its end, and a
// reason behind it, is not reported.
package vet
