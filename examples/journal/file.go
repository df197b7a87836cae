package main

import (
	"bufio"
	"fmt"
	"os"
	"sync/atomic"
)

// lines is how many lines a record has.
const lines = 3

// journal is a file of records. One record may be written at a time. What a writer that crashed has left of a record is overwritten by
// the next one.
type journal struct {
	file *os.File
	end  atomic.Int64 // of the last record that is whole
}

func openJournal(path string) (*journal, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	return &journal{file: f}, nil
}

func (j *journal) close() { _ = j.file.Close() }

// write writes a record, a line at a time, and calls between after each.
func (j *journal) write(record string, between func()) error {
	at := j.end.Load()
	if err := j.file.Truncate(at); err != nil {
		return err
	}
	for i := range lines {
		n, err := fmt.Fprint(writerAt{j.file, at}, line(record, i))
		if err != nil {
			return err
		}
		at += int64(n)
		between()
	}
	j.end.Store(at)
	return nil
}

func line(record string, i int) string { return fmt.Sprintf("%s, line %d of %d\n", record, i+1, lines) }

// writerAt writes to a place in a file.
type writerAt struct {
	file *os.File
	at   int64
}

func (w writerAt) Write(p []byte) (int, error) { return w.file.WriteAt(p, w.at) }

// check reads the file, which is to have the records of n orders and n payments.
func (j *journal) check(n int) (report, error) {
	r := report{Records: 2 * n}
	if _, err := j.file.Seek(0, 0); err != nil {
		return r, err
	}
	due := map[string]string{} // the records, by their first line
	for i := range n {
		for _, kind := range []string{"order", "payment"} {
			record := fmt.Sprintf("%s %d", kind, i)
			due[line(record, 0)] = record
		}
	}
	found := map[string]int{}
	scan := bufio.NewScanner(j.file)
	for more := scan.Scan(); more; {
		record, known := due[scan.Text()+"\n"]
		whole := known
		for i := 1; i < lines; i++ {
			more = scan.Scan()
			whole = whole && more && scan.Text()+"\n" == line(record, i)
		}
		if whole {
			found[record]++
		} else {
			r.Torn++
		}
		more = scan.Scan()
	}
	for _, record := range due {
		switch found[record] {
		case 0:
			r.Missing++
		case 1:
			r.Whole++
		default:
			r.Twice++
		}
	}
	return r, scan.Err()
}
