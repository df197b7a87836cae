// Package simulator runs a model of a pipeline in virtual time.
package simulator
