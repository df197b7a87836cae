package nats

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/minio/highwayhash"
	"github.com/nats-io/nats-server/v2/server"
)

// A server that meets a damaged message when it starts drops the messages after
// it, or never returns. So Embed reads all messages before it starts the
// server, and compares their checksums.

// cleanName is the file that says how long the files of messages were when the
// server stopped. It is there only while no server runs.
const cleanName = "golda.clean"

// verify returns an error that is ErrCorrupt if messages of a store are
// damaged. After a crash the end of the last file of a stream may be
// incomplete, and after a power cut also the ends of files that were written
// shortly before. The incomplete message was not acknowledged, or not synced.
// Then verify removes the index of the server, which reads all messages again
// and cuts off the ends.
func verify(dir string, streams []string, s Store) error {
	sizes, clean, err := readClean(dir)
	if err != nil {
		return err
	}
	stores := storesOf(dir, streams)
	blocks, err := blockSizes(stores)
	if err != nil {
		return err
	}
	if clean && !maps.Equal(sizes, blocks) {
		return fmt.Errorf("%w: %s changed since the server stopped", ErrCorrupt, difference(sizes, blocks))
	}
	good, bad := 0, error(nil)
	for _, m := range stores {
		names := m.blocks()
		unsynced := 0
		if !clean {
			unsynced = countUnsynced(names, s.unsynced())
		}
		for k, name := range names {
			n, torn, err := verifyBlock(name, m.stream, k >= len(names)-unsynced)
			good += n
			if torn {
				s.warn("the process was killed, or the machine lost power: the end of a file of messages cannot be read, and is cut off",
					"file", name)
				err = removeIfThere(filepath.Join(filepath.Dir(name), "index.db"))
			}
			if err != nil && !errors.Is(err, ErrCorrupt) {
				return err
			}
			bad = errors.Join(bad, err)
		}
	}
	if good == 0 && !clean { // perhaps this version of the server writes something else
		return nil
	}
	return bad
}

// unsynced returns for how long a written message may be missing on the disk.
func (s Store) unsynced() time.Duration {
	switch {
	case s.SyncAlways:
		return 0
	case s.SyncEvery == 0:
		return 2*defaultSync + syncSlack
	default:
		return 2*s.SyncEvery + syncSlack
	}
}

// syncSlack is how long it may take to sync all files.
const syncSlack = 5 * time.Second

// countUnsynced returns how many of the files, of which the last one was
// written last, may not be on the disk as they were written.
func countUnsynced(names []string, within time.Duration) (n int) {
	var last time.Time
	for k := len(names) - 1; k >= 0; k-- {
		info, err := os.Stat(names[k])
		if err != nil {
			return n // reading it fails as well
		}
		if n == 0 {
			last = info.ModTime()
		} else if within == 0 || last.Sub(info.ModTime()) > within {
			return n
		}
		n++
	}
	return n
}

// The format of a message in a file, as filestore.go of the server writes it:
// length, sequence, time, length of the subject, the subject, if the length
// says so four bytes more, headers and data, checksum.
const (
	recordHead = 22
	recordSum  = 8
	hasHeaders = 1 << 31
)

// verifyBlock checks one file of messages, and returns how many are good, and
// whether its end is incomplete, if it may be.
func verifyBlock(name, stream string, mayBeTorn bool) (good int, torn bool, err error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return 0, false, err
	}
	number := strings.TrimSuffix(filepath.Base(name), ".blk")
	key := sha256.Sum256([]byte(stream + "-" + number))
	sum, err := highwayhash.NewDigest64(key[:])
	if err != nil {
		return 0, false, err
	}
	for rest := data; len(rest) > 0; good++ {
		n, ok := record(rest, sum)
		if !ok {
			later := laterRecord(rest, sum)
			if mayBeTorn && !later {
				return good, true, nil
			}
			if later {
				good++
			}
			return good, false, fmt.Errorf("%w: %s: the message at byte %d is damaged", ErrCorrupt, name, len(data)-len(rest))
		}
		rest = rest[n:]
	}
	return good, false, nil
}

// record returns the length of the message at the front, and whether its
// checksum is right.
func record(data []byte, sum hash.Hash) (n int, ok bool) {
	if n = recordLen(data); n == 0 {
		return 0, false
	}
	r := data[:n]
	subject := recordHead + int(binary.LittleEndian.Uint16(r[20:]))
	from := subject
	if binary.LittleEndian.Uint32(r)&hasHeaders != 0 {
		from += 4
	}
	sum.Reset()
	for _, part := range [][]byte{r[4:20], r[recordHead:subject], r[from : n-recordSum]} {
		_, _ = sum.Write(part) // a hash returns no error
	}
	return n, bytes.Equal(sum.Sum(nil), r[n-recordSum:])
}

// laterRecord reports whether there is a message behind the front.
func laterRecord(data []byte, sum hash.Hash) bool {
	for at := 1; at < len(data); at++ {
		if _, ok := record(data[at:], sum); ok {
			return true
		}
	}
	return false
}

// recordLen returns the length of the record at the front, or 0 if there is no
// complete one.
func recordLen(data []byte) int {
	if len(data) < recordHead {
		return 0
	}
	length := binary.LittleEndian.Uint32(data)
	n := uint64(length &^ hasHeaders)
	least := uint64(recordHead + recordSum + int(binary.LittleEndian.Uint16(data[20:])))
	if length&hasHeaders != 0 {
		least += 4
	}
	if n < least || n > uint64(len(data)) {
		return 0
	}
	return int(n)
}

// streamsDir returns where the streams of a store are.
func streamsDir(dir string) string {
	return filepath.Join(dir, server.JetStreamStoreDir, "$G", "streams")
}

// messages is the directory with the files of a stream's messages.
type messages struct{ stream, dir string }

// storesOf returns the directories of the messages of streams.
func storesOf(dir string, streams []string) (all []messages) {
	for _, name := range streams {
		all = append(all, messages{name, filepath.Join(streamsDir(dir), name, "msgs")})
	}
	return all
}

// blocks returns the files of messages, in order.
func (m messages) blocks() []string {
	names, _ := filepath.Glob(filepath.Join(m.dir, "*.blk"))
	slices.SortFunc(names, func(a, b string) int {
		if len(a) != len(b) {
			return len(a) - len(b) // their names are numbers
		}
		return strings.Compare(a, b)
	})
	return names
}

// blockSizes returns how long the files of messages are.
func blockSizes(stores []messages) (map[string]int64, error) {
	sizes := map[string]int64{}
	for _, s := range stores {
		for _, name := range s.blocks() {
			info, err := os.Stat(name)
			if err != nil {
				return nil, err
			}
			sizes[s.stream+"/"+filepath.Base(name)] = info.Size()
		}
	}
	return sizes, nil
}

// readClean reads what writeClean has written, and returns whether there was
// something.
func readClean(dir string) (sizes map[string]int64, ok bool, err error) {
	text, err := os.ReadFile(filepath.Join(dir, cleanName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	lines, ended := strings.CutSuffix(string(text), "end\n")
	if !ended {
		return nil, false, nil // it was being written
	}
	sizes = map[string]int64{}
	for line := range strings.Lines(lines) {
		var name string
		var size int64
		if _, err := fmt.Sscan(line, &name, &size); err != nil {
			return nil, false, fmt.Errorf("%w: %s cannot be read", ErrCorrupt, cleanName)
		}
		sizes[name] = size
	}
	return sizes, true, nil
}

// writeClean notes that the server has stopped. If that is not possible, the
// store counts as one whose process was killed.
func writeClean(dir string) {
	streams, err := streamsOnDisk(dir)
	if err != nil {
		return
	}
	sizes, err := blockSizes(storesOf(dir, streams))
	if err != nil {
		return
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		fmt.Fprintln(&b, name, sizes[name])
	}
	b.WriteString("end\n")
	_ = os.WriteFile(filepath.Join(dir, cleanName), []byte(b.String()), 0o600)
}

// removeIfThere removes a file.
func removeIfThere(name string) error {
	err := os.Remove(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// difference names the files in which two lists differ.
func difference(a, b map[string]int64) string {
	names := map[string]bool{}
	for name, size := range a {
		if other, ok := b[name]; !ok || other != size {
			names[name] = true
		}
	}
	for name := range b {
		if _, ok := a[name]; !ok {
			names[name] = true
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(names)), ", ")
}
