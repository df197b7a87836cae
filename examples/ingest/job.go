package main

import (
	"context"
	"errors"
	"strings"
)

// errEmpty is the error of a job without a name.
var errEmpty = errors.New("the job is empty; send its name as the body")

// check returns the name of a job.
func check(_ context.Context, job string) (string, error) {
	if job = strings.TrimSpace(job); job == "" {
		return "", errEmpty
	}
	return job, nil
}
