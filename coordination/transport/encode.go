package transport

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/golda-dev/golda/internal/kept"
)

// errMalformed is the error of bytes that are no message.
var errMalformed = errors.New("transport: malformed message")

// The parts of a message that follow its header.
const (
	withoutBody = iota
	withValue   // a JSON text
	withError   // the JSON text of a fault

	// withHeaders is added to one of these: the header ends with the names and
	// values of [Message.Headers].
	withHeaders = 0x80
)

// mostHeaders is how many bytes the headers of a message may have.
const mostHeaders = 32 << 10

// Encode returns a message as bytes, for a transport that carries those.
// Values are encoded by encoding/json, and the receiver decodes them into a
// type of its own. So their types are not looked at: unexported fields stay
// behind. A string that is not UTF-8, which package json would change, is an
// error. The error wraps [ErrEncoding].
func Encode(m *Message) ([]byte, error) {
	part, body := withoutBody, []byte(nil)
	switch {
	case m.Err != nil:
		part, body = withError, encodeError(m.Err)
	case m.Body != nil:
		part = withValue
		var err error
		if body, err = encodeValue(m.Body); err != nil {
			return nil, fmt.Errorf("%w: %T: %w", ErrEncoding, m.Body, err)
		}
	}
	headers := encodeHeaders(m.Headers)
	if len(headers) > mostHeaders {
		return nil, fmt.Errorf("%w: %d bytes of headers, the most is %d", ErrEncoding, len(headers), mostHeaders)
	}
	if len(headers) > 0 {
		part |= withHeaders
	}
	b := make([]byte, 0, 32+len(m.Process)+len(m.Method)+len(headers)+len(body))
	b = append(b, m.Kind, byte(part))
	b = binary.AppendUvarint(b, m.Call)
	b = binary.AppendUvarint(b, uint64(max(m.Within, 0)))
	b = appendText(b, m.Process)
	b = appendText(b, m.Method)
	if len(headers) > 0 {
		b = appendText(b, headers)
	}
	return append(b, body...), nil
}

// encodeHeaders returns names and values one after the other.
func encodeHeaders(headers map[string]string) (b []byte) {
	for name, value := range headers {
		b = appendText(appendText(b, name), value)
	}
	return b
}

// appendText appends a text and, before it, its length.
func appendText[T string | []byte](b []byte, text T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// encodeValue encodes a value. An Encoded value is passed on unchanged.
func encodeValue(v any) (data []byte, err error) {
	if e, ok := v.(Encoded); ok {
		return e, nil
	}
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	return kept.Marshal(v)
}

// Decode returns the message that was encoded as b, and keeps parts of b.
func Decode(b []byte) (*Message, error) {
	if len(b) < 2 {
		return nil, errMalformed
	}
	m := &Message{Kind: b[0]}
	part := b[1]
	r := reader{rest: b[2:]}
	m.Call = r.number()
	m.Within = time.Duration(min(r.number(), uint64(1<<63-1)))
	m.Process = r.text()
	m.Method = r.text()
	if part&withHeaders != 0 {
		part &^= withHeaders
		m.Headers = r.headers()
	}
	if r.failed {
		return nil, errMalformed
	}
	switch part {
	case withoutBody:
	case withValue:
		m.Body = Encoded(r.rest)
	case withError:
		m.Err = decodeError(r.rest)
	default:
		return nil, errMalformed
	}
	return m, nil
}

// reader reads the header of a message.
type reader struct {
	rest   []byte
	failed bool
}

func (r *reader) number() uint64 {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 {
		r.failed = true
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

func (r *reader) text() string {
	n := r.number()
	if r.failed || n > uint64(len(r.rest)) {
		r.failed = true
		return ""
	}
	s := string(r.rest[:n])
	r.rest = r.rest[n:]
	return s
}

// headers returns the names and values that encodeHeaders has written.
func (r *reader) headers() map[string]string {
	n := r.number()
	if r.failed || n > uint64(len(r.rest)) || n > mostHeaders {
		r.failed = true
		return nil
	}
	of := reader{rest: r.rest[:n]}
	r.rest = r.rest[n:]
	all := map[string]string{}
	for len(of.rest) > 0 && !of.failed {
		name := of.text()
		all[name] = of.text()
	}
	r.failed = of.failed
	return all
}
