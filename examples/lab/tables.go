package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/golda-dev/golda/examples/internal/show"
	"github.com/golda-dev/golda/examples/lab/tables"
)

// tableOptions holds the values of the flags for the tables of the
// dissertation.
type tableOptions struct {
	flags        *flag.FlagSet
	tables, full bool
	page, erlda  string
}

// tableFlags declares the flags.
func tableFlags(f *flag.FlagSet) *tableOptions {
	t := &tableOptions{flags: f}
	f.BoolVar(&t.tables, "tables", false, "instead, measure the applications of the dissertation of Cruz (2015), print its tables 5.1 to 5.3 beside ours, and write -page")
	f.BoolVar(&t.full, "full", false, "with -tables: as many images and requests as the dissertation has, which takes about an hour; without it, two minutes")
	f.StringVar(&t.page, "page", filepath.Join("docs", "tables.md"), "with -tables: write the tables to this `file`, in Markdown; empty: write none")
	f.StringVar(&t.erlda, "erlda", "", "with -tables: measure ERLDA's web server at this `address`, too, such as 127.0.0.1:8080")
	return t
}

// set returns which of some flags were given.
func (t *tableOptions) set(names ...string) (found []string) {
	t.flags.Visit(func(f *flag.Flag) {
		if slices.Contains(names, f.Name) {
			found = append(found, "-"+f.Name)
		}
	})
	return found
}

// given reports whether there is a flag for the tables.
func (t *tableOptions) given() bool { return len(t.set("tables", "full", "page", "erlda")) > 0 }

// withTables returns the config for the tables, or why flags contradict each
// other.
func (c config) withTables(f *flag.FlagSet, t *tableOptions) (config, error) {
	if !t.tables {
		return c, fmt.Errorf("%s: for the tables of the dissertation; add -tables", strings.Join(t.set("full", "page", "erlda"), ", "))
	}
	others := t.set("workload", "trace", "policies", "length", "runs", "late")
	o := tables.Scaled()
	if t.full {
		o = tables.Full()
	}
	o.Seed, o.ERLDA = c.seed, t.erlda
	c.tables, c.page = &o, t.page
	if len(t.set("out")) == 0 {
		c.out = filepath.Join("out", "tables.html")
	}
	return c, errors.Join(show.NoArguments(f),
		show.Fault(len(others) > 0, "-tables has workloads, policies and runs of its own: leave out %s", strings.Join(others, ", ")))
}

// runTables measures the tables, and writes them.
func (c config) runTables(ctx context.Context, stdout, stderr io.Writer) error {
	c.tables.Progress = stderr
	result, err := tables.Run(ctx, *c.tables)
	if err != nil {
		return err
	}
	if c.json {
		err = json.NewEncoder(stdout).Encode(result)
	} else {
		_, err = fmt.Fprint(stdout, result)
	}
	for _, file := range []struct {
		name  string
		write func(io.Writer) error
	}{{c.page, result.WriteMarkdown}, {c.out, result.WriteHTML}, {beside(c.out), result.Web.WriteHTML}} {
		if err == nil && file.name != "" {
			if err = writeFile(file.name, file.write); err == nil {
				_, err = fmt.Fprintf(stderr, "written: %s\n", file.name)
			}
		}
	}
	return err
}

// beside returns the name of the page with the plots of the web server over
// time: tables-web.html for tables.html.
func beside(out string) string {
	if out == "" {
		return ""
	}
	end := filepath.Ext(out)
	return strings.TrimSuffix(out, end) + "-web" + end
}

// writeFile writes a file, with its directory.
func writeFile(name string, write func(io.Writer) error) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o750); err != nil {
		return err
	}
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	if err := errors.Join(write(file), file.Close()); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
