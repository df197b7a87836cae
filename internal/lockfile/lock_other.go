//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package lockfile

import "os"

// noFollow is nothing: this system cannot open a file without following a link.
const noFollow = 0

// locksDirs reports whether directories can be locked.
const locksDirs = false

// lock does nothing. This system has no lock that ends with the process, so two
// processes that open one store are not noticed.
func lock(*os.File) error { return nil }
