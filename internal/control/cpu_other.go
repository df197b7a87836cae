//go:build !unix

package control

import "time"

// processTime reports that the time is not known on this system.
func processTime() (used time.Duration, known bool) { return 0, false }
