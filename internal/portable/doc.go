// Package portable has one test: all packages and tests of all modules compile
// for Windows, which the machines that run the tests usually are not.
//
// It asks the type checker alone, with sources. A build or go vet for another
// system says little more and compiles the standard library and all
// dependencies for it first: on two processors it took 108 seconds, this test
// takes about ten.
package portable
