package replay

import "time"

// peak finds the most events in any sliding second: of each second that ends with an event, itself included.
type peak struct {
	times []int64 // of the last second, in µs, a ring
	first int
	n     int
	most  int
}

func (p *peak) add(at time.Time) {
	now := at.UnixMicro()
	for p.n > 0 && now-p.times[p.first] >= int64(time.Second/time.Microsecond) {
		p.first = (p.first + 1) % len(p.times)
		p.n--
	}
	if p.n == len(p.times) {
		grown := make([]int64, max(64, 2*len(p.times)))
		for i := range p.n {
			grown[i] = p.times[(p.first+i)%len(p.times)]
		}
		p.times, p.first = grown, 0
	}
	p.times[(p.first+p.n)%len(p.times)] = now
	p.n++
	p.most = max(p.most, p.n)
}
