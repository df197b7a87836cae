package transport

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheLengthOfAFrameIsCheckedWithoutRegardToTheSizeOfAnInt(t *testing.T) {
	for _, most := range []uint32{0, 512, 16 << 20, math.MaxInt32, math.MaxUint32} {
		for _, n := range []uint32{0, 1, 512, 513, 16 << 20, math.MaxInt32, math.MaxInt32 + 1, 0xfffffffe, math.MaxUint32} {
			got, err := frameSize([4]byte(binary.BigEndian.AppendUint32(nil, n)), most)
			if uint64(n) > uint64(most) {
				require.ErrorIs(t, err, ErrTooLarge, "%d of %d", n, most)
				continue
			}
			require.NoError(t, err)
			assert.Equal(t, n, got)
		}
	}
}

// counting counts the bytes of the buffers that it is given, as far as it does not fill them.
type counting struct {
	left int
	most int // the most memory, in bytes, that waited for bytes that had not come
}

func (c *counting) Read(b []byte) (int, error) {
	c.most = max(c.most, len(b))
	if c.left == 0 {
		return 0, io.EOF
	}
	n := min(len(b), c.left)
	c.left -= n
	return n, nil
}

func TestMemoryForAFrameGrowsWithWhatHasCome(t *testing.T) {
	for _, come := range []int{0, 1, 100, 10_000, 1_000_000} {
		c := &counting{left: come}
		_, err := readGrowing(c, math.MaxInt32)
		require.Error(t, err)
		assert.LessOrEqual(t, c.most, max(firstRead, 2*come), "after %d bytes", come)
	}
	for _, n := range []uint32{0, 1, firstRead, firstRead + 1, 100_000} {
		data, err := readGrowing(&counting{left: 1 << 20}, n)
		require.NoError(t, err)
		assert.Len(t, data, int(n))
		assert.Equal(t, int(n), cap(data), "nothing is left over")
	}
}

func FuzzFrames(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 1, 7}, uint32(100))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff}, uint32(math.MaxUint32))
	f.Fuzz(func(t *testing.T, data []byte, most uint32) {
		in := bytes.NewReader(data)
		for {
			before := in.Len()
			var header [4]byte
			if _, err := io.ReadFull(in, header[:]); err != nil {
				return
			}
			n, err := frameSize(header, most)
			if err != nil {
				assert.ErrorIs(t, err, ErrTooLarge)
				return
			}
			frame, err := readGrowing(in, n)
			if err != nil {
				assert.Less(t, uint64(before), 4+uint64(n))
				assert.True(t, errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF), "%v", err)
				return
			}
			require.Equal(t, data[len(data)-before+4:][:n], append([]byte{}, frame...))
		}
	})
}

func FuzzHello(f *testing.F) {
	s := &socket{node: "tcp:127.0.0.1:1", kind: "tcp", key: make([]byte, 64), cfg: Config{Secret: make([]byte, minSecret)}}
	f.Add([]byte(`{"protocol":"golda/2","node":"tcp:127.0.0.1:2","to":"tcp:127.0.0.1:1","key":"AAAA","nonce":"AAAA"}`))
	f.Add([]byte(`{"refused":"taken"}`))
	f.Add([]byte(`{"protocol":"golda/2","mac":"AAAA","signature":"AAAA"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := parseHello(data)
		if err != nil {
			return
		}
		i := introduction{caller: h, called: hello{Node: s.node}}
		if s.checkHello(h) == nil {
			assert.NotEqual(t, s.node, h.Node)
			assert.NotContains(t, h.Node, "#")
			assert.Error(t, s.verify(h, i, callerSide), "nothing proves the secret by chance")
		}
		_ = refusedError{h.Refused}.Error()
	})
}
