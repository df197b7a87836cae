// Package part has what all parts of a pipeline share. Users know [Part] as
// pipeline.Part.
package part

// Seal is the argument of the method that makes a type a part of a pipeline.
// Only packages of this module can name it, so that only they make parts.
type Seal struct{}

// Part is a part of a pipeline: a stage, a wire, a group of parts, or an
// option.
type Part interface{ Part(Seal) }

// List is several parts as one. A stage of it may be in other lists too.
type List []Part

// Part makes the list a part of a pipeline.
func (List) Part(Seal) {}

// Defaults are options that the other options of the pipeline replace, as those
// of stage.Defaults in a stage. They come first. They are for packages that
// make a pipeline of the parts of a user.
type Defaults []Part

// Part makes the defaults a part of a pipeline.
func (Defaults) Part(Seal) {}

// Fault is a part that could not be made. The pipeline reports it.
type Fault struct{ Name, Problem string }

// Part makes the fault a part of a pipeline.
func (Fault) Part(Seal) {}
