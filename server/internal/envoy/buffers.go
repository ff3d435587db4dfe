package envoy

import (
	"sync"

	"google.golang.org/grpc/mem"
)

const (
	// bufferSize is what is more than most answers have, and more than gRPC takes for not worth being used again.
	bufferSize = 2 << 10
	// maxBuffer bounds what is kept.
	maxBuffer = 16 << 10
)

// bufferPool has the buffers that answers are written into. Those of gRPC are cleared before each use, of 4 KiB for an
// answer of 200 bytes.
type bufferPool struct{ pool sync.Pool }

var buffers mem.BufferPool = &bufferPool{sync.Pool{New: func() any {
	b := make([]byte, 0, bufferSize)
	return &b
}}}

// Get implements [mem.BufferPool]. What is in the buffer is left from before.
func (p *bufferPool) Get(n int) *[]byte {
	b := p.pool.Get().(*[]byte)
	if n > cap(*b) {
		*b = make([]byte, n)
	}
	*b = (*b)[:n]
	return b
}

// Put implements [mem.BufferPool].
func (p *bufferPool) Put(b *[]byte) {
	if cap(*b) <= maxBuffer {
		p.pool.Put(b)
	}
}
