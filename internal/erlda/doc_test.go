// Package erlda contains a faithful small port of ERLDA as it was published (Areias and Neto 2025,
// github.com/fernandoareias/erlda), for one purpose: to prove that the tests can fail.
//
// ERLDA has 26 known defects. For each defect that concerns a library like this one there is a row in defects_test.go:
// a promise, and a scenario that is run against both implementations. Golda must keep the promise, and the port must
// break it. A test that both pass would prove nothing, and a test that can run on only one of them would prove little.
//
//   - system_test.go: what both look like to a scenario
//   - beam_test.go: as much of an Erlang node as ERLDA needs
//   - port_test.go, port_controller_test.go: ERLDA, module by module
//   - golda_test.go: Golda, through its public API
//   - defects_test.go: the rows
//   - numbers_test.go: the port behaves as the original was measured
//   - page_test.go: docs/erlda.md lists the promises of the rows
//
// # Determinism
//
// Everything runs in a bubble of testing/synctest, so time is virtual and a scenario continues when all goroutines are
// blocked. The port's random numbers have a seed. Where the original has a race, the port always takes the losing side,
// and a comment says so.
//
// The package has only test files: nothing can import the port by mistake.
package erlda
