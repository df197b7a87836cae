package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	out := flag.String("o", "", "the `directory` for the results; out/release/VERSION of the repository if empty")
	offline := flag.Bool("offline", false, "leave out govulncheck, which needs vuln.go.dev")
	dry := flag.Bool("n", false, "set no tags")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: release [-n] [-offline] [-o directory] VERSION")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := prepare(ctx, ".", flag.Arg(0), *out, *offline, !*dry)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// prepare prepares a release of the repository that has the directory.
func prepare(ctx context.Context, dir, version, out string, offline, tags bool) (err error) {
	root, err := run(ctx, dir, nil, "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	common, err := run(ctx, dir, nil, "git", "rev-parse", "--path-format=absolute", "--git-common-dir")
	if err != nil {
		return err
	}
	r := &release{version: version, root: strings.TrimSpace(root), main: filepath.Dir(strings.TrimSpace(common)), out: out, offline: offline, steps: os.Stderr}
	if r.out == "" {
		r.out = filepath.Join(r.root, "out", "release", version)
	}
	if r.out, err = filepath.Abs(r.out); err != nil {
		return err
	}
	if r.cache, err = os.MkdirTemp("", "release"); err != nil {
		return err
	}
	r.worktree, r.proxy = filepath.Join(r.cache, "worktree"), proxy{filepath.Join(r.out, "proxy")}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	defer func() {
		if failed := r.close(); err == nil {
			err = failed
		}
	}()
	steps := []struct {
		name string
		do   func(context.Context) error
	}{
		{"the version and the checkout", r.check},
		{"the commit of the release", r.commit},
		{"its modules, used as a user will", r.use},
		{"the API since the latest tag", r.compare},
		{"bills of materials and licences", r.materials},
		{"published vulnerabilities", r.vulnerabilities},
	}
	if tags {
		steps = append(steps, struct {
			name string
			do   func(context.Context) error
		}{"the tags", r.tag})
	}
	for k, step := range steps {
		began := time.Now()
		fmt.Fprintf(r.steps, "%d of %d  %s … ", k+1, len(steps), step.name)
		if err := step.do(ctx); err != nil {
			fmt.Fprintln(r.steps, "refused")
			return fmt.Errorf("%s: %w", step.name, err)
		}
		fmt.Fprintf(r.steps, "%.0f s\n", time.Since(began).Seconds())
	}
	fmt.Printf("%s is in %s\n", version, r.out)
	if tags {
		fmt.Printf("publish it:  git push origin %s\n", strings.Join(r.tags(), " "))
		fmt.Printf("or undo it:  git tag --delete %s\n", strings.Join(r.tags(), " "))
	}
	return nil
}
