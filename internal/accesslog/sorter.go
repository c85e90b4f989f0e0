package accesslog

import (
	"context"
	"errors"
	"io"
	"iter"
	"math"
	"time"
)

// SortOptions bound how far records are put in order.
type SortOptions struct {
	// Window is how much later than its receipt a request may stand in the
	// log: as long as the longest response takes. Zero means 5 minutes.
	Window time.Duration
	// Most records held at once. Zero means 1<<16.
	Most int
	// Light records are held without their text, all slices nil: a tenth of
	// the memory.
	Light bool
}

// Sorter puts records in the order of their receipt. A server writes a line
// when the response is done, and a slow one so stands minutes behind requests
// that were received after it; replaying arrivals needs them as they came.
type Sorter struct {
	opts    SortOptions
	queue   queue
	free    []*held
	newest  int64 // µs since 1970
	last    int64
	count   uint64
	late    int
	current *held
}

type held struct {
	rec  Record
	text []byte
}

// NewSorter returns an empty sorter.
func NewSorter(opts SortOptions) *Sorter {
	if opts.Window <= 0 {
		opts.Window = 5 * time.Minute
	}
	if opts.Most <= 0 {
		opts.Most = 1 << 16
	}
	return &Sorter{opts: opts, last: math.MinInt64}
}

// Push takes a copy of a record. One without a time takes that of the record
// before it.
func (s *Sorter) Push(r *Record) {
	when := s.newest
	if t, ok := r.place(); ok {
		when = t.UnixMicro()
	}
	s.newest = max(s.newest, when)
	var h *held
	if n := len(s.free); n > 0 {
		h, s.free = s.free[n-1], s.free[:n-1]
	} else {
		h = new(held)
	}
	if s.opts.Light {
		h.rec = *r
		c := &h.rec
		c.Line, c.Name, c.Forwarded, c.Request, c.Method, c.Path, c.Protocol = nil, nil, nil, nil, nil, nil, nil
		c.VHost, c.Referer, c.UserAgent = nil, nil, nil
	} else {
		h.text = r.copyTo(&h.rec, h.text)
	}
	s.queue.push(waiting{when, s.count, h})
	s.count++
}

// Pop returns the earliest record once nothing earlier can come, or with flush
// whatever is earliest; nil if there is none. It is valid until the next Pop.
func (s *Sorter) Pop(flush bool) *Record {
	if s.current != nil {
		s.free = append(s.free, s.current)
		s.current = nil
	}
	if len(s.queue) == 0 {
		return nil
	}
	if !flush && len(s.queue) <= s.opts.Most && s.newest-s.queue[0].when <= s.opts.Window.Microseconds() {
		return nil
	}
	first := s.queue.pop()
	s.current = first.h
	if first.when < s.last {
		s.late++
	} else {
		s.last = first.when
	}
	return &s.current.rec
}

// Late is how many records came out of order all the same, since they stood
// further from their place than the window reaches.
func (s *Sorter) Late() int { return s.late }

// Sorted yields the records of several logs as one, in the order of their
// receipt. Each reader's log is read only as far as the others have come. The
// record yielded is the same each time; the last pair may be an error.
// The sorter, nil for one of the default options, tells afterwards what was
// late.
func Sorted(ctx context.Context, s *Sorter, readers ...*Reader) iter.Seq2[*Record, error] {
	if s == nil {
		s = NewSorter(SortOptions{})
	}
	return func(yield func(*Record, error) bool) {
		heads := make([]head, len(readers))
		for i, r := range readers {
			heads[i].r = r
		}
		for {
			h, err := earliest(heads)
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if h != nil {
				s.Push(&h.rec)
				h.filled = false
			}
			for r := s.Pop(h == nil); r != nil; r = s.Pop(h == nil) {
				if !yield(r, nil) {
					return
				}
			}
			if h == nil {
				return
			}
		}
	}
}

// head is the next record of one log.
type head struct {
	r      *Reader
	rec    Record
	when   time.Time
	filled bool
	ended  bool
}

// earliest fills the heads and returns that of the least time, nil if all
// logs have ended.
func earliest(heads []head) (*head, error) {
	var best *head
	for i := range heads {
		h := &heads[i]
		if !h.filled && !h.ended {
			err := h.r.Next(&h.rec)
			switch {
			case errors.Is(err, io.EOF):
				h.ended = true
			case err != nil:
				return nil, err
			default:
				h.filled = true
				if t, ok := h.rec.place(); ok {
					h.when = t
				}
			}
		}
		if h.filled && (best == nil || h.when.Before(best.when)) {
			best = h
		}
	}
	return best, nil
}
