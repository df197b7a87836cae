package source

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// Files makes a source of the names of files that match any of the patterns, as [filepath.Glob] finds them: in order, each
// once. It looks for them in its first run. A pattern without wildcards must match: if no such file exists, that is an error
// that is [fs.ErrNotExist], and ends the feed, as a malformed pattern does. The position is the number of names, and the
// total is known.
func Files(patterns ...string) Source[string] {
	var names []string
	found := false
	return func(ctx context.Context, submit func(string) error) error {
		if !found {
			all, err := glob(patterns)
			if err != nil {
				return Fatal(err)
			}
			names, found = all, true
		}
		return Slice(names)(ctx, submit)
	}
}

// glob returns the names that match any of the patterns.
func glob(patterns []string) (all []string, err error) {
	for _, pattern := range patterns {
		names, err := filepath.Glob(pattern)
		if err != nil {
			return nil, fmt.Errorf("source: Files: pattern %q: %w", pattern, err)
		}
		if len(names) == 0 && !strings.ContainsAny(pattern, `*?[`) {
			return nil, fmt.Errorf("source: Files: %q: %w", pattern, fs.ErrNotExist)
		}
		all = append(all, names...)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}
