// Package cputime reads how much CPU time the process has used, and how much
// the whole machine.
package cputime
