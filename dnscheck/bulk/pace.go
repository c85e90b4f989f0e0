package bulk

import (
	"time"

	"github.com/miekg/dns"
)

const (
	// recent is how many outcomes are looked at to see whether a resolver is
	// in trouble: when more than a quarter of them are timeouts or SERVFAIL.
	recent = 64
	// slowest is the least share of the pace asked for.
	slowest     = 1.0 / 16
	leastWindow = 16
	// calm is how long the pace stays halved before it doubles again.
	calm = 5 * time.Second
)

// pace says when the next query may leave and how many may be under way.
type pace struct {
	rate   float64 // 0 is any
	full   int     // the window asked for
	window int
	factor float64
	next   time.Time

	bad       [recent]bool
	at        int
	bads      int
	changed   time.Time
	slowdowns int
}

func newPace(o *Options) *pace {
	return &pace{rate: o.Rate, full: o.Window, window: o.Window, factor: 1}
}

// allows reports whether a query may leave now.
func (p *pace) allows(now time.Time) bool { return p.rate == 0 || !now.Before(p.next) }

// spend accounts for a query that leaves. What a late wake-up missed is made up
// for, by ten queries at most.
func (p *pace) spend(now time.Time) {
	if p.rate == 0 {
		return
	}
	each := time.Duration(float64(time.Second) / (p.rate * p.factor))
	if earliest := now.Add(-10 * each); p.next.Before(earliest) {
		p.next = earliest
	}
	p.next = p.next.Add(each)
}

// wait is how long until a query may leave.
func (p *pace) wait(now time.Time) time.Duration {
	if p.rate == 0 {
		return maxWait
	}
	return max(0, p.next.Sub(now))
}

func (p *pace) success(now time.Time) {
	p.note(false)
	if (p.factor < 1 || p.window < p.full) && now.Sub(p.changed) > calm {
		p.factor, p.window = min(1, 2*p.factor), min(p.full, 2*p.window)
		p.changed = now
	}
}

// trouble takes note of a timeout or a SERVFAIL. A few of them are ordinary:
// reverse zones are badly kept.
func (p *pace) trouble(now time.Time) {
	p.note(true)
	if p.bads <= recent/4 || now.Sub(p.changed) < calm/4 {
		return
	}
	if p.rate > 0 {
		p.factor = max(slowest, p.factor/2)
	} else {
		p.window = max(min(leastWindow, p.full), p.window/2)
	}
	p.changed = now
	p.slowdowns++
}

func (p *pace) note(bad bool) {
	if p.bad[p.at] {
		p.bads--
	}
	if p.bad[p.at] = bad; bad {
		p.bads++
	}
	p.at = (p.at + 1) % recent
}

// zones counts what is under way for each reverse zone.
type zones struct {
	most  int // 0 is any number
	busy  map[uint32]int
	queue []held
}

type held struct {
	query int32
	zone  uint32
}

func newZones(most int) zones {
	z := zones{most: most}
	if most > 0 {
		z.busy = make(map[uint32]int)
	}
	return z
}

// of is the zone of a query: a /16 or a /32; 0 for those that have none.
func (z *zones) of(q *Query) uint32 {
	if z.most == 0 || !q.Addr.IsValid() || q.Type != 0 && q.Type != dns.TypePTR {
		return 0
	}
	if a := q.Addr.Unmap(); a.Is4() {
		o := a.As4()
		return 1<<16 | uint32(o[0])<<8 | uint32(o[1]) // 0x1xxxx is no IPv6 prefix in use
	}
	o := q.Addr.As16()
	return uint32(o[0])<<24 | uint32(o[1])<<16 | uint32(o[2])<<8 | uint32(o[3])
}

func (z *zones) enter(zone uint32) bool {
	if z.most == 0 || zone == 0 {
		return true
	}
	if z.busy[zone] >= z.most {
		return false
	}
	z.busy[zone]++
	return true
}

func (z *zones) leave(zone uint32) {
	if z.most == 0 || zone == 0 {
		return
	}
	if z.busy[zone]--; z.busy[zone] == 0 {
		delete(z.busy, zone)
	}
}

func (z *zones) hold(q int32, zone uint32) { z.queue = append(z.queue, held{q, zone}) }
func (z *zones) waiting() int              { return len(z.queue) }

// looked bounds how many of those that wait are tried at once.
const looked = 64

// ready reports whether one of those that wait can go.
func (z *zones) ready() bool {
	for _, h := range z.queue[:min(len(z.queue), looked)] {
		if z.busy[h.zone] < z.most {
			return true
		}
	}
	return false
}

// pop takes one that can go.
func (z *zones) pop() (q int32, zone uint32, ok bool) {
	for i, h := range z.queue[:min(len(z.queue), looked)] {
		if z.enter(h.zone) {
			z.queue = append(z.queue[:i], z.queue[i+1:]...)
			return h.query, h.zone, true
		}
	}
	return 0, 0, false
}

// drain takes one whether it can go or not.
func (z *zones) drain() (q int32, zone uint32, ok bool) {
	if len(z.queue) == 0 {
		return 0, 0, false
	}
	h := z.queue[0]
	z.queue = z.queue[1:]
	return h.query, h.zone, true
}
