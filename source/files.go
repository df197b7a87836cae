package source

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/golda-dev/golda/internal/feed"
)

// Files makes a source of the names of files that match any of the patterns, as
// [filepath.Glob] finds them: in order, each once. It looks for them in its
// first run. A file whose name is a pattern is found, too, whatever the pattern
// means. A pattern without wildcards must match: if no such file exists, that
// is an error that is [fs.ErrNotExist], and ends the feed, as a malformed
// pattern does. So does a pattern with wildcards that matches nothing because
// the directory before the first of them cannot be read. The position is the
// number of names, and the total is known. pipeline.New refuses Files without
// patterns, and an empty pattern.
func Files(patterns ...string) Source[string] {
	if len(patterns) == 0 {
		return feed.Refused[string]("Files: there is no pattern")
	}
	if i := slices.Index(patterns, ""); i >= 0 {
		return feed.Refused[string]("Files: pattern %d is empty", i+1)
	}
	var names []string
	found := false
	return func(ctx context.Context, submit func(string) error) error {
		if !found {
			all, err := globAll(patterns)
			if err != nil {
				return Fatal(err)
			}
			names, found = all, true
		}
		return Slice(names)(ctx, submit)
	}
}

// globAll returns the names that match any of the patterns.
func globAll(patterns []string) (all []string, err error) {
	for _, pattern := range patterns {
		names, err := glob(pattern)
		if err != nil {
			return nil, fmt.Errorf("source: Files: pattern %q: %w", pattern, err)
		}
		all = append(all, names...)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// glob returns the names that match a pattern, and an error if there are none
// and the pattern is why.
func glob(pattern string) ([]string, error) {
	names, err := filepath.Glob(pattern)
	if _, notThere := os.Lstat(pattern); notThere == nil {
		return append(names, pattern), nil
	}
	if err != nil || len(names) > 0 {
		return names, err
	}
	wildcard := strings.IndexAny(pattern, `*?[`)
	if wildcard < 0 {
		return nil, fs.ErrNotExist
	}
	return nil, readable(filepath.Dir(pattern[:wildcard] + "x"))
}

// readable returns why the names in a directory cannot be read, which
// filepath.Glob does not say.
func readable(dir string) error {
	if runtime.GOOS != "windows" && strings.Contains(dir, `\`) { // with escapes, it is not the name
		return nil
	}
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if _, err = f.Readdirnames(1); err == io.EOF { //nolint:errorlint // Readdirnames returns it as it is
		return nil
	}
	return err
}
