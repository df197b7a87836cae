package stagetest

import "fmt"

// Promise is one of Golda's promises that a trial checks: "law" (the accounts
// balance), "one end" (no command is lost, ends twice, or gets another's
// answer), "progress", "goroutines" (none is left after the stop), "crashes"
// (no handler crashes but by an injected fault) or "survival" (the pipeline
// does not give up).
type Promise string

// BreachError is a promise that was not kept.
type BreachError struct {
	Promise Promise
	Detail  string
}

// Error returns the promise and the detail.
func (b *BreachError) Error() string { return fmt.Sprintf("%s: %s", b.Promise, b.Detail) }
