package accesslog

// waiting is a record that is held until nothing earlier can come.
type waiting struct {
	when int64 // µs since 1970
	seq  uint64
	h    *held
}

// before orders by time; of the same time what stands first in the log.
func (w waiting) before(o waiting) bool {
	return w.when < o.when || w.when == o.when && w.seq < o.seq
}

// queue is a heap, the earliest first. Each node has four children, and the
// keys lie in the queue itself: container/heap, with two children behind
// pointers, takes several times as long, and more than reading the line did.
type queue []waiting

func (q *queue) push(w waiting) {
	h := append(*q, w)
	i := len(h) - 1
	for i > 0 {
		parent := (i - 1) / 4
		if !w.before(h[parent]) {
			break
		}
		h[i] = h[parent]
		i = parent
	}
	h[i] = w
	*q = h
}

// pop takes the earliest; there must be one.
func (q *queue) pop() waiting {
	h := *q
	first, last := h[0], h[len(h)-1]
	h[len(h)-1] = waiting{}
	h = h[:len(h)-1]
	*q = h
	if len(h) == 0 {
		return first
	}
	i := 0
	for {
		child := 4*i + 1
		if child >= len(h) {
			break
		}
		least := child
		for c := child + 1; c < min(child+4, len(h)); c++ {
			if h[c].before(h[least]) {
				least = c
			}
		}
		if !h[least].before(last) {
			break
		}
		h[i] = h[least]
		i = least
	}
	h[i] = last
	return first
}
