package transport

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

// A frame is its length, in four bytes, and as many bytes. One without bytes is
// a heartbeat.

// firstRead is how much memory is taken for a frame before any of its bytes has
// arrived.
const firstRead = 4 << 10

// frameSize returns the length of a frame, which is not more than most. Both
// are 32 bits on every machine: an int may be as short, and then negative.
func frameSize(header [4]byte, most uint32) (uint32, error) {
	n := binary.BigEndian.Uint32(header[:])
	if n > most {
		return 0, fmt.Errorf("%w: %d bytes came, the most is %d", ErrTooLarge, n, most)
	}
	return n, nil
}

// receiver reads the frames of a connection. A read fails if no bytes arrive
// for too long, or if a frame takes too long.
type receiver struct {
	conn    net.Conn
	in      *bufio.Reader
	silence time.Duration // that may be between two reads
	arrival time.Duration // that a frame may take
	due     time.Time     // when the frame must be there; zero between frames
}

func (s *socket) receiver(conn net.Conn) *receiver {
	r := &receiver{conn: conn, silence: silences * s.cfg.Heartbeat, arrival: s.cfg.MaxArrival}
	r.in = bufio.NewReaderSize(patient{r}, 64<<10)
	return r
}

// patient is a connection that is read with the time limits of its receiver.
type patient struct{ *receiver }

func (p patient) Read(b []byte) (int, error) {
	limit := time.Now().Add(p.silence)
	if !p.due.IsZero() && p.due.Before(limit) {
		limit = p.due
	}
	if err := p.conn.SetReadDeadline(limit); err != nil {
		return 0, err
	}
	n, err := p.conn.Read(b)
	switch {
	case !errors.Is(err, os.ErrDeadlineExceeded):
	case limit.Equal(p.due):
		err = fmt.Errorf("it has begun what is not there after %v, see Config.MaxArrival: %w", p.arrival, err)
	default:
		err = fmt.Errorf("nothing has come for %v: %w", p.silence, err)
	}
	return n, err
}

// hurry gives the next reads a time limit, until the caller calls end.
func (r *receiver) hurry() (end func()) {
	r.due = time.Now().Add(r.arrival)
	return func() { r.due = time.Time{} }
}

// next reads a frame of up to "most" bytes. Its time begins with its first
// byte, if it has not begun.
func (r *receiver) next(most uint32) ([]byte, error) {
	var header [4]byte
	var err error
	if header[0], err = r.in.ReadByte(); err != nil {
		return nil, err
	}
	if r.due.IsZero() {
		defer r.hurry()()
	}
	if _, err = io.ReadFull(r.in, header[1:]); err != nil {
		return nil, err
	}
	n, err := frameSize(header, most)
	if err != nil {
		return nil, err
	}
	return readGrowing(r.in, n)
}

// readGrowing reads n bytes into memory that at most doubles with the bytes
// received.
func readGrowing(r io.Reader, n uint32) ([]byte, error) {
	data := make([]byte, 0, min(n, firstRead))
	for {
		have := len(data)
		data = data[:cap(data)]
		if _, err := io.ReadFull(r, data[have:]); err != nil {
			return nil, err
		}
		if uint64(len(data)) == uint64(n) {
			return data, nil
		}
		grown := make([]byte, len(data), min(uint64(n), 2*uint64(len(data))))
		copy(grown, data)
		data = grown
	}
}

// writeFrames writes messages, each behind its length. A heartbeat is a message
// without bytes.
func (s *socket) writeFrames(conn net.Conn, out *bufio.Writer, frames [][]byte) error {
	if len(frames) == 0 {
		return nil
	}
	if err := conn.SetWriteDeadline(time.Now().Add(silences * s.cfg.Heartbeat)); err != nil {
		return err
	}
	var length [4]byte
	for _, f := range frames {
		binary.BigEndian.PutUint32(length[:], uint32(len(f)))
		if _, err := out.Write(length[:]); err != nil {
			return err
		}
		if _, err := out.Write(f); err != nil {
			return err
		}
	}
	return out.Flush()
}
