// Package part seals the interface of the parts of a pipeline: only packages of this module can name a Seal.
package part

// Seal is the argument of the method that makes a type a part of a pipeline.
type Seal struct{}
