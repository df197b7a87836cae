package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/golda-dev/golda/adapter/dashboard"
)

type recordCommand struct {
	URL  string        `arg:"" help:"Of the dashboard."`
	File string        `arg:"" help:"To write; it must not be there."`
	For  time.Duration `default:"1m" help:"At most ten minutes are kept."`
}

// Run records a pipeline.
func (c *recordCommand) Run(s *session) error {
	client := s.client(c.URL)
	stream, err := client.Open(s.ctx, "/events") // as long as it is open, the dashboard takes snapshots
	if err != nil {
		return err
	}
	defer stream.Close()
	go func() { _, _ = io.Copy(io.Discard, stream) }()
	fmt.Fprintf(s.out, "recording for %v; an interrupt ends it earlier\n", c.For)
	select {
	case <-time.After(c.For):
	case <-s.ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), time.Minute)
	defer cancel()
	body, err := client.Open(ctx, "/recording")
	if err != nil {
		return err
	}
	defer body.Close()
	return c.save(s, body)
}

// save writes the recording, whole or not at all.
func (c *recordCommand) save(s *session, body io.Reader) error {
	file, err := os.OpenFile(c.File, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	n, err := io.Copy(file, body)
	if err = errors.Join(err, file.Close()); err != nil {
		_ = os.Remove(c.File) // a part of a recording cannot be opened
		return err
	}
	_, err = fmt.Fprintf(s.out, "%s has %d bytes: golda open %s\n", c.File, n, filepath.Clean(c.File))
	return err
}

type openCommand struct {
	File   string `arg:"" help:"Of a recording."`
	Listen string `default:"localhost:8077" help:"Address to serve the page at."`
}

// Run serves a recording until it is interrupted.
func (c *openCommand) Run(s *session) error {
	r, err := readRecording(c.File)
	if err != nil {
		return err
	}
	d := dashboard.Open(r)
	return serve(s, d, d.Close, c.Listen, plain(r.Root.Pipeline)+" of "+plain(r.Root.Process))
}
