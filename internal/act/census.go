package act

import (
	"slices"
	"strings"
)

// Processes lists the names of a system's processes that begin with a prefix, sorted. It
// looks at all of them, so it is for tests and for people, not for the road of a command.
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
