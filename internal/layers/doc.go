// Package layers checks the architecture: its tests hold, as text, which
// package may import which, and compare the text with the code.
//
// The text is in layers_test.go. Change it deliberately, never to make a build
// pass. The package exports nothing.
package layers
