package lookups

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/whyslow/whyslow/internal/accesslog"
)

// LogOptions say how the server handles connections. The zero value is Apache
// httpd's defaults.
type LogOptions struct {
	// KeepAliveTimeout is how long a connection stays open without a request.
	// Zero means 5 s, Apache httpd's default.
	KeepAliveTimeout time.Duration
	// PerRequest says that each request causes a lookup, as mod_remoteip has it.
	PerRequest bool
	// MaxLookups bounds the lookups that are kept one by one, for the replay.
	// Zero means 8 million, 64 MB; further ones are counted only.
	MaxLookups int
	// MaxAddresses bounds the distinct addresses, beyond which they are sampled.
	// Zero means accesslog.DefaultAddresses.
	MaxAddresses int
}

// Log is what the requests of a log would make a server look up. Add the
// records in the order they were received as far as possible.
type Log struct {
	opt LogOptions

	Requests int // with an address
	Named    int // that hold a name already, in place of the address
	Absent   int // without either
	Special  int // of Requests: from private and special ranges
	HTTP2    int // of Requests: each causes a lookup
	// First and Last are when the first and the last request were received;
	// zero if the log has no times.
	First, Last time.Time
	// Exact says that the log tells first requests of a connection from others.
	Exact bool
	// Took is the sum of the durations of Timed requests.
	Took  time.Duration
	Timed int

	tally *accesslog.Tally[visitor]
	order []lookup // one by one
	over  int      // lookups that order had no room for
	conns map[netip.AddrPort]int64
	base  int64 // ms
	ids   int
}

// visitor is what is known of one address.
type visitor struct {
	id        int32 // from 1
	requests  int32
	low, high int32 // lookups
	last      int64 // its latest request, ms
}

// lookup is one of them: when, in units of 10 ms since the first request, and
// whose. Of those that only the upper bound counts, sure is false.
type lookup struct {
	at uint32
	id int32 // negative if not sure
}

// tick is the resolution of the replay: 497 days fit.
const tick = 10 * time.Millisecond

// NewLog returns an empty Log.
func NewLog(o LogOptions) *Log {
	o.KeepAliveTimeout = cmp.Or(o.KeepAliveTimeout, 5*time.Second)
	o.MaxLookups = cmp.Or(o.MaxLookups, 8<<20)
	return &Log{opt: o, tally: accesslog.NewTally[visitor](o.MaxAddresses), conns: make(map[netip.AddrPort]int64)}
}

// Add counts one request.
func (l *Log) Add(r *accesslog.Record) {
	if !r.Client.IsValid() {
		if r.Name != nil {
			l.Named++
		} else {
			l.Absent++
		}
		return
	}
	l.Requests++
	at, timed := l.time(r)
	if r.Has.Has(accesslog.FieldDuration) {
		l.Took += r.Duration
		l.Timed++
	}
	if Special(r.Client) {
		l.Special++
	}
	v := l.tally.At(r.Client)
	if v == nil {
		return // left out by the sample
	}
	if v.id == 0 {
		l.ids++
		v.id = int32(l.ids)
	}
	sure, maybe := l.causes(r, v, at, timed)
	v.requests++
	v.last = at
	if maybe {
		v.high++
		l.keep(at, v.id, sure)
	}
	if sure {
		v.low++
	}
}

// AddAddress counts an address of a bare list as a request on a connection of
// its own.
func (l *Log) AddAddress(a netip.Addr) {
	l.Add(&accesslog.Record{Client: a.Unmap(), Has: accesslog.FieldClient | accesslog.FieldKeepAlive})
}

// time is when a request was received, in ms.
func (l *Log) time(r *accesslog.Record) (ms int64, ok bool) {
	t, ok := r.Received()
	if !ok {
		return 0, false
	}
	if l.First.IsZero() || t.Before(l.First) {
		l.First = t
	}
	if t.After(l.Last) {
		l.Last = t
	}
	return t.UnixMilli(), true
}

// causes reports whether a request causes a lookup: surely, or at most.
func (l *Log) causes(r *accesslog.Record, v *visitor, at int64, timed bool) (sure, maybe bool) {
	if r.HTTP2() {
		l.HTTP2++
		return true, true
	}
	if l.opt.PerRequest {
		return true, true
	}
	idle := l.opt.KeepAliveTimeout.Milliseconds()
	switch {
	case r.Has.Has(accesslog.FieldKeepAlive):
		l.Exact = true
		return r.KeepAlive == 0, r.KeepAlive == 0
	case r.Has.Has(accesslog.FieldRemotePort) && timed:
		l.Exact = true
		first := l.connects(netip.AddrPortFrom(r.Client, r.RemotePort), at, idle)
		return first, first
	case !timed:
		return v.requests == 0, true
	}
	return v.requests == 0 || at-v.last > idle, true
}

// mostConnections bounds the connections remembered to tell requests apart by
// the client's port.
const mostConnections = 1 << 17

// connects reports whether a request is the first of its connection, by the
// client's port. A request may itself last long, so that a connection counts as
// gone only after a minute more than it is kept open without one.
func (l *Log) connects(c netip.AddrPort, at, idle int64) bool {
	const longRequest = 60_000
	last, known := l.conns[c]
	if !known && len(l.conns) >= mostConnections {
		for k, t := range l.conns {
			if at-t > idle+longRequest {
				delete(l.conns, k)
			}
		}
		if len(l.conns) >= mostConnections {
			clear(l.conns)
		}
	}
	l.conns[c] = at
	return !known || at-last > idle+longRequest
}

// keep notes a lookup for the replay.
func (l *Log) keep(at int64, id int32, sure bool) {
	if len(l.order) >= l.opt.MaxLookups {
		l.over++
		return
	}
	if len(l.order) == 0 {
		l.base = at
	}
	if !sure {
		id = -id
	}
	l.order = append(l.order, lookup{at: uint32(max(at-l.base, 0) / tick.Milliseconds()), id: id})
}

// Span is the time from the first to the last request; zero if unknown.
func (l *Log) Span() time.Duration { return l.Last.Sub(l.First) }

// Addresses is how many distinct addresses asked, estimated where they were
// sampled (see Fraction).
func (l *Log) Addresses() float64 { return l.tally.Distinct() }

// Fraction is the part of the addresses that was kept, 1 if all were.
func (l *Log) Fraction() float64 { return l.tally.Fraction() }

// Visitor is an address of a Log.
type Visitor struct {
	Addr netip.Addr
	// Requests it made, and the least and the greatest number of lookups that
	// they cause.
	Requests, Low, High int
	id                  int32
}

// Visitors lists the addresses, those with the most lookups first.
func (l *Log) Visitors() []Visitor {
	all := make([]Visitor, 0, l.tally.Len())
	for a, v := range l.tally.All() {
		all = append(all, Visitor{Addr: a, Requests: int(v.requests), Low: int(v.low), High: int(v.high), id: v.id})
	}
	slices.SortFunc(all, func(a, b Visitor) int {
		return cmp.Or(cmp.Compare(b.High, a.High), a.Addr.Compare(b.Addr))
	})
	return all
}

// lookups yields those kept, in the order of time.
func (l *Log) lookups() []lookup {
	slices.SortStableFunc(l.order, func(a, b lookup) int { return cmp.Compare(a.at, b.at) })
	return l.order
}
