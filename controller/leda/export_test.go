package leda

import "github.com/golda-dev/golda/controller"

// Remembered returns for how many stages a script remembers anything.
func Remembered(c controller.Controller) int {
	l := c.(*run).l
	return max(len(l.placed), len(l.Monitoring.zero), len(l.Scheduler.bounds))
}
