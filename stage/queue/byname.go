package queue

import (
	"fmt"
	"strings"
)

// UnknownError means that no discipline has the given name.
type UnknownError struct {
	Name string
}

// Error returns the name and the known names.
func (e *UnknownError) Error() string {
	return fmt.Sprintf("queue: unknown discipline %q; known are %s", e.Name, strings.Join(Names(), ", "))
}

// ByName returns the discipline of that name with its defaults. An unknown name
// is an [*UnknownError], which lists the known names.
func ByName(name string) (Discipline, error) {
	for _, d := range all() {
		if d.Name() == name {
			return d, nil
		}
	}
	return nil, &UnknownError{Name: name}
}

// Names returns the names that [ByName] knows, in alphabetical order.
func Names() []string {
	disciplines := all()
	names := make([]string, 0, len(disciplines))
	for _, d := range disciplines {
		names = append(names, d.Name())
	}
	return names
}

// all lists the disciplines by name. It is a function so that no code can
// change the list.
func all() []Discipline {
	return []Discipline{
		Deadline{},
		FIFO{},
		LIFO{},
		AdaptiveLIFO{},
		Priority{},
	}
}
