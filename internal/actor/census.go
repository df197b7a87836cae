package actor

import (
	"slices"
	"strings"
)

// Processes returns the sorted names of a system's processes that begin with a
// prefix. It visits all processes, so it is for tests and debugging, not for
// the path of a command.
func Processes(s *System, prefix string) []string {
	var names []string
	for _, bucket := range s.ProcessRegistry.LocalPIDs.LocalPIDs {
		bucket.IterCb(func(name string, _ any) {
			if strings.HasPrefix(name, prefix) {
				names = append(names, name)
			}
		})
	}
	slices.Sort(names)
	return names
}
