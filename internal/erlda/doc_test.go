// Package erlda holds a faithful small port of ERLDA as it was published (Areias
// and Neto 2025, github.com/fernandoareias/erlda), kept for one purpose: to prove
// that our tests can fail.
//
// ERLDA has 26 known defects. For each that concerns a library like this one
// there is a row in defects_test.go: a promise, and a scenario that is run
// against both. Golda must keep the promise, the port must break it. A test that
// both pass would prove nothing, a test that only one implementation can be given
// would prove little.
//
// # The files
//
//   - system_test.go: what both look like to a scenario
//   - beam_test.go: as much of an Erlang node as ERLDA needs
//   - port_test.go, port_controller_test.go: ERLDA, module by module
//   - house_test.go: Golda, through its public face
//   - defects_test.go: the rows
//   - numbers_test.go: the port does what was measured of the original
//   - page_test.go: docs/erlda.md says what the rows say
//
// # Determinism
//
// All runs in a bubble of testing/synctest, so time is virtual and a scenario
// goes on when everything has come to rest. The port's chance is seeded. Where
// the original has a race, the port always takes the losing side, and says so.
//
// The package has only test files: nothing can import the port by mistake.
package erlda
