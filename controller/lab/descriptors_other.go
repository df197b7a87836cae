//go:build !unix

package lab

// descriptors returns the limit of file descriptors, or nothing if it is unknown.
func descriptors() string { return "" }
