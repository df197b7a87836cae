package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"
)

// inALoop returns the report that a loop makes of a log: the pipeline must
// write the same.
func inALoop(name string) (report []byte, err error) {
	log, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	counts := map[string]count{}
	for lines := bufio.NewScanner(log); lines.Scan(); {
		h, err := parse(context.Background(), lines.Text())
		if err != nil {
			return nil, err
		}
		for _, key := range []string{time.Unix(h.Second, 0).UTC().Format("2006-01-02T15:04 ") + h.Host, "total " + h.Host} {
			counts[key] = counts[key].plus(h)
		}
	}
	var all []string
	for key, c := range counts {
		all = append(all, fmt.Sprintf("%s: %d requests, %d bytes\n", key, c.Requests, c.Bytes))
	}
	slices.Sort(all)
	var text bytes.Buffer
	for _, line := range all {
		text.WriteString(line)
	}
	return text.Bytes(), nil
}
