// Package version is the life of a stage's behaviour: its versions, and the
// instances of each.
//
// A [Series] is the versions of one stage. The present [Version] makes the
// [Instance] that a worker needs, starts it, and counts it until it is stopped.
// An upgrade puts another version in its place. Then no instance of the old one
// is made any more, and its instances are stopped one by one: by the workers
// after their batches, and here those that are idle in the inbox. A version is
// over when the last of them has left.
//
// The state of an instance that crashed, or that an upgrade replaced, is the
// state that another instance begins with: see [Saved].
//
// Start, Stop and the snapshots are user code: it runs under [crash.Guard], with
// no lock of this package held but turning, which only those wait for that
// start or stop the same instance.
package version
