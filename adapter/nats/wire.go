package nats

import (
	"encoding/binary"
	"errors"

	"github.com/golda-dev/golda/coordination/transport"
)

// A call of a stage and its result are payloads that a codec has encoded
// already. JSON would encode their bytes once more, as base64, and took a
// quarter of the processor time of a call.

var errWire = errors.New("nats: a malformed call")

// encode returns the call as it is sent.
func (q called) encode() transport.Encoded {
	b := make([]byte, 0, 2*binary.MaxVarintLen64+len(q.From)+q.most(q.To))
	return q.appendTo(binary.AppendUvarint(appendText(b, q.From), q.Call), q.To)
}

// decodeCalled returns the call that was sent.
func decodeCalled(sent transport.Encoded) (q called, err error) {
	from, rest, ok := cutText(sent)
	call, size := binary.Uvarint(rest)
	if !ok || size <= 0 {
		return called{}, errWire
	}
	if q.Payload, q.To, err = cutPayload(rest[size:]); err != nil {
		return called{}, err
	}
	q.From, q.Call = from, call
	return q, nil
}

// encode returns the result as it is sent.
func (a reply) encode() transport.Encoded { return a.appendTo(make([]byte, 0, a.most(a.Go)), a.Go) }

// decodeReply returns the result that was sent.
func decodeReply(sent transport.Encoded) (a reply, err error) {
	a.Payload, a.Go, err = cutPayload(sent)
	return a, err
}

// most returns how many bytes appendTo appends at most.
func (p Payload) most(text string) int {
	return 3*binary.MaxVarintLen64 + len(text) + len(p.Type) + len(p.Data)
}

// appendTo appends a text, followed by the payload.
func (p Payload) appendTo(b []byte, text string) []byte {
	b = appendText(b, text)
	b = appendText(b, p.Type)
	b = binary.AppendVarint(b, int64(p.Version))
	return append(b, p.Data...)
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// cutPayload is the reverse of appendTo. The data of p is a part of b.
func cutPayload(b []byte) (p Payload, text string, err error) {
	text, b, ok := cutText(b)
	if ok {
		p.Type, b, ok = cutText(b)
	}
	version, size := binary.Varint(b)
	if !ok || size <= 0 {
		return Payload{}, "", errWire
	}
	p.Version, p.Data = int(version), b[size:]
	return p, text, nil
}

func cutText(b []byte) (s string, rest []byte, ok bool) {
	n, size := binary.Uvarint(b)
	if size <= 0 || n > uint64(len(b)-size) {
		return "", nil, false
	}
	b = b[size:]
	return string(b[:n]), b[n:], true
}
