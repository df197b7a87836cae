// Package cputime reads how much CPU time the process has used.
package cputime
