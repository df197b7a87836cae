package picture

import (
	"image/png"
	"io"
	"sync"
)

// Encode writes a canvas as a PNG file, fast rather than small. Several
// goroutines may call it at once.
func Encode(w io.Writer, img *Canvas) error { return encoder.Encode(w, img) }

// encoder writes PNG files. Without the pool each file would allocate most of a
// megabyte.
var encoder = png.Encoder{CompressionLevel: png.BestSpeed, BufferPool: new(encoderPool)}

// encoderPool keeps the buffers of an encoder: as many as were ever in use at
// once, and so at most one for each worker of save. (A sync.Pool keeps some for
// each processor.)
type encoderPool struct {
	mu   sync.Mutex // guards free
	free []*png.EncoderBuffer
}

// Get may return nil: the encoder then makes a buffer.
func (p *encoderPool) Get() *png.EncoderBuffer {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := len(p.free) - 1
	if last < 0 {
		return nil
	}
	b := p.free[last]
	p.free = p.free[:last]
	return b
}

func (p *encoderPool) Put(b *png.EncoderBuffer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, b)
}
