package policy

import (
	"fmt"
	"strings"

	"github.com/golda-dev/golda/controller"
)

// UnknownError is the error for a name that no policy of this package has.
type UnknownError struct {
	Name string
}

// Error lists the names of all policies.
func (e *UnknownError) Error() string {
	return fmt.Sprintf("policy: unknown policy %q; known are %s", e.Name, strings.Join(Names(), ", "))
}

// ByName returns the policy of that name with its defaults; a preset follows a
// colon, as in "seda:cruz". An unknown name, or a preset that the policy does
// not have, is an [*UnknownError], which lists the known names.
func ByName(name string) (controller.Policy, error) {
	for _, p := range all() {
		if p.Name() == name {
			return p, nil
		}
	}
	return nil, &UnknownError{Name: name}
}

// Names returns the names that [ByName] knows, in alphabetical order.
func Names() []string {
	policies := all()
	names := make([]string, 0, len(policies))
	for _, p := range policies {
		names = append(names, p.Name())
	}
	return names
}

// all lists the policies by name. It is a function so that no code can change
// the list.
func all() []controller.Policy {
	return []controller.Policy{
		Backlog{},
		Batching{},
		Batching{Preset: Welsh},
		CoDel{},
		Cohort{},
		Cohort{Preset: Cruz},
		Cohort{Preset: Gordon},
		Color{},
		DBR{},
		DBR{Preset: Cruz},
		DBR{Preset: Gordon},
		DBR{Preset: Measured},
		DS2{},
		ERLDA{},
		ERLDA{Preset: Areias},
		Fixed{},
		Hill{},
		InFlight{},
		Limit{},
		LRB{},
		LRB{Preset: Cruz},
		LRB{Preset: Measured},
		MG1{},
		Objective{},
		RT90{},
		SEDA{},
		SEDA{Preset: Cruz},
		SEDA{Preset: Welsh},
		Shed{},
		SRPT{},
		SRPT{Form: Polled},
		SRPT{Form: Polled, Preset: Cruz},
		SRPT{Preset: Cruz},
		Stealing{},
		Stealing{Preset: Cruz},
	}
}
