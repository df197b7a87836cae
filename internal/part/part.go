// Package part seals the interface of what a pipeline is made of: only the
// house's own packages can name a Seal.
package part

// Seal is the argument of the method that makes a thing part of a pipeline.
type Seal struct{}
