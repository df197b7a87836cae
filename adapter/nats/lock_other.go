//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package nats

import "os"

// lockFile opens the lock file of a store. This system has no lock that ends with the process, so two processes that open one
// store are not noticed.
func lockFile(name string) (*os.File, error) { return os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600) }
