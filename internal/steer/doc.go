// Package steer serves controllers for the engine: it computes windows of
// counters, keeps the journal of changes, and leads workers through visit
// plans. It is pure, so simulators of policies use it, too.
package steer
