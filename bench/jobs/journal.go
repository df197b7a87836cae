package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// journal reads the file that the handlers write, while they write it.
type journal struct {
	path  string
	read  int64
	done  map[string]int // how often each job was done
	lines int
	first time.Time // of all lines
	// latest is the time of the latest line with a job that was not done
	// before.
	latest time.Time
	// waits are the times from the adding of urgent jobs to their beginning.
	waits []time.Duration
}

func journalIn(dir string) *journal {
	return &journal{path: filepath.Join(dir, journalName), done: map[string]int{}}
}

// update reads the lines since the last call.
func (j *journal) update() error {
	file, err := os.Open(j.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	if _, err := file.Seek(j.read, 0); err != nil {
		return err
	}
	var text bytes.Buffer
	if _, err := text.ReadFrom(file); err != nil {
		return err
	}
	whole := text.Bytes()[:bytes.LastIndexByte(text.Bytes(), '\n')+1]
	j.read += int64(len(whole))
	for line := range strings.Lines(string(whole)) {
		j.note(strings.Fields(line))
	}
	return nil
}

// note counts a line.
func (j *journal) note(words []string) {
	if len(words) != 4 {
		return
	}
	added, begun, at := timeFrom(words[1]), timeFrom(words[2]), timeFrom(words[3])
	if j.first.IsZero() || at.Before(j.first) {
		j.first = at
	}
	j.lines++
	j.done[words[0]]++
	if j.done[words[0]] > 1 {
		return
	}
	if at.After(j.latest) {
		j.latest = at
	}
	if strings.HasPrefix(words[0], "u") {
		j.waits = append(j.waits, begun.Sub(added))
	}
}

func timeFrom(word string) time.Time {
	ns, _ := strconv.ParseInt(word, 10, 64)
	return time.Unix(0, ns)
}
