package fsnotify

import "time"

func init() { lookTime = 200 * time.Millisecond } //nolint:gochecknoinits // before any test runs
