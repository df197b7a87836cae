package stagetest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// Choice is one step: the actor that was chosen, its place among the actors
// that had a message, and how many had one. A suspended command that was woken
// counts as one of them.
type Choice struct {
	Place, Among int
	Actor        string
}

// Steps are the choices, step by step. A place of 0 is the actor whose message
// arrived first.
type Steps []Choice

// String returns a line for each step that was not the first in line.
func (o Steps) String() string {
	var b strings.Builder
	for i, c := range o {
		if c.Place > 0 {
			fmt.Fprintf(&b, "step %d: %s, before %d others\n", i+1, c.Actor, c.Place)
		}
	}
	if b.Len() == 0 {
		return "each step was the first in line\n"
	}
	return b.String()
}

// Text returns the order in short form, to be pasted into [ReplayOrder]: for
// each step that was not the first in line its number, counted from 1, and its
// place, as in "3:1 17:2". It is empty if there is no such step. [ParseSteps]
// parses it.
func (o Steps) Text() string {
	var words []string
	for i, c := range o {
		if c.Place > 0 {
			words = append(words, fmt.Sprintf("%d:%d", i+1, c.Place))
		}
	}
	return strings.Join(words, " ")
}

// mostSteps limits the steps of a parsed order, and their places: a test that
// takes that many steps never ends.
const mostSteps = 1 << 20

// ParseSteps parses what [Steps.Text] returns. It sets only the place of each
// step, neither Among nor Actor. An error names the invalid word.
func ParseSteps(text string) (Steps, error) {
	var order Steps
	for word := range strings.FieldsSeq(text) {
		number, place, err := parseStep(word)
		if err == nil && number <= len(order) {
			err = fmt.Errorf("comes after step %d", len(order))
		}
		if err != nil {
			return nil, fmt.Errorf("stagetest: invalid step %q: %w", word, err)
		}
		order = append(order, make(Steps, number-len(order))...)
		order[number-1].Place = place
	}
	return order, nil
}

// parseStep parses one step and its place.
func parseStep(word string) (number, place int, err error) {
	before, behind, ok := strings.Cut(word, ":")
	if !ok {
		return 0, 0, errors.New("not of the form step:place")
	}
	if number, err = parseCount(before); err != nil {
		return 0, 0, err
	}
	place, err = parseCount(behind)
	return number, place, err
}

// parseCount parses a number from 1 to mostSteps.
func parseCount(digits string) (int, error) {
	n, err := strconv.ParseUint(digits, 10, 32)
	if err != nil {
		return 0, err
	}
	if n < 1 || n > mostSteps {
		return 0, fmt.Errorf("%d is not from 1 to %d", n, mostSteps)
	}
	return int(n), nil
}

// ReplayOrder runs a test in a given order, such as the order of an
// [OrderError], and returns the order that it took and the test's error. The
// order is the same as long as the test does the same: a step that the text
// does not name is the first in line, and a place is taken modulo the number of
// candidates. An invalid text fails the test.
func ReplayOrder(t *testing.T, order string, test func(s *Stepper) error) (Steps, error) {
	t.Helper()
	o, err := ParseSteps(order)
	if err != nil {
		t.Fatal(err)
	}
	return step(t, byOrder(o), test)
}

// byOrder chooses as o does, and after its end the first in line.
func byOrder(o Steps) func(int) int {
	i := -1
	return func(among int) int {
		if i++; i >= len(o) {
			return 0
		}
		return o[i].Place % among
	}
}
