package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	gomodule "golang.org/x/mod/module"
	"golang.org/x/mod/sumdb/dirhash"
	"golang.org/x/mod/zip"
)

// proxy is a directory in the form of a module proxy, as GOPROXY=file://… reads
// it. So the go command can resolve, hash and install modules before they are
// published.
type proxy struct{ dir string }

// add adds a module as the go command would make it from the revision of the
// repository.
func (p proxy) add(repository, revision string, m module, version string, mod []byte) error {
	escaped, err := gomodule.EscapePath(m.Path)
	if err != nil {
		return err
	}
	dir := filepath.Join(p.dir, escaped, "@v")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var zipped bytes.Buffer
	if err := zip.CreateFromVCS(&zipped, gomodule.Version{Path: m.Path, Version: version}, repository, revision, m.Dir); err != nil {
		return err
	}
	info, err := json.Marshal(struct {
		Version string
		Time    time.Time
	}{version, time.Now().UTC()})
	if err != nil {
		return err
	}
	for name, text := range map[string][]byte{
		"list": []byte(version + "\n"), version + ".info": info, version + ".mod": mod, version + ".zip": zipped.Bytes(),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// hash returns the hash of a module's content, as go.sum has it.
func (p proxy) hash(m module, version string) (string, error) {
	escaped, err := gomodule.EscapePath(m.Path)
	if err != nil {
		return "", err
	}
	return dirhash.HashZip(filepath.Join(p.dir, escaped, "@v", version+".zip"), dirhash.Hash1)
}
