package bulk

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/miekg/dns"
)

const (
	batchSize = 32
	// maxWait bounds one wait for answers, so that the end of ctx and answers
	// over TCP are noticed.
	maxWait = 100 * time.Millisecond
	// deadAfter is how many refusals, without one answer, tell that nothing
	// listens.
	deadAfter = 3
)

// asker asks one server. It belongs to one goroutine; only fetches over TCP run
// beside it.
type asker struct {
	o       *Options
	queries []Query
	server  int
	last    bool         // no other server is left
	before  map[int]task // what earlier servers failed, and what this one does
	st      *Stats
	deliver func(*Answer)

	conn     batchConn
	table    *table
	pace     *pace
	zones    zones
	order    []int32 // not begun, from the front
	rest     []int32 // failed here, for the next server
	out      batch
	in       batch
	tcp      *fetcher
	refusals int
	dead     bool
	got      reply
}

// run asks the queries of order and returns those that are left for the next
// server.
func (a *asker) run(ctx context.Context, order []int32) ([]int32, error) {
	if len(order) == 0 {
		return nil, nil
	}
	a.order = order
	conn, err := a.o.Dial(ctx, "udp", a.o.Servers[a.server])
	if err != nil {
		if ctx.Err() == nil && !unreachable(err) {
			return nil, err
		}
		a.dead = true
		return a.abandon(ctx, time.Now()), nil
	}
	defer conn.Close()
	a.conn = newBatchConn(conn)
	a.table = newTable(a.o.Window, a.o.Seed+uint64(a.server))
	a.pace = newPace(a.o)
	a.zones = newZones(a.o.PerZone)
	a.in = newBatch(batchSize, maxReply)
	a.tcp = newFetcher(a.o, a.server)
	defer a.tcp.drain()
	defer func() { a.st.Slowdowns += a.pace.slowdowns }()
	for !a.over() {
		now := time.Now()
		if ctx.Err() != nil || a.dead {
			return a.abandon(ctx, now), nil
		}
		a.expire(now)
		for more := a.worth(); more; {
			more = a.begin(now)
			if err := a.send(); err != nil {
				return nil, err
			}
		}
		if err := a.send(); err != nil {
			return nil, err
		}
		if err := a.receive(ctx, conn, now); err != nil {
			return nil, err
		}
		for _, f := range a.tcp.finished() {
			a.fetched(f)
		}
	}
	return a.rest, nil
}

func (a *asker) over() bool {
	return len(a.order) == 0 && a.zones.waiting() == 0 && a.table.busy() == 0 && a.tcp.busy == 0
}

// expire sends what was not answered again, or gives it up.
func (a *asker) expire(now time.Time) {
	for {
		at, ok := a.table.oldest()
		if !ok || now.Sub(at.at) < a.o.Timeout {
			return
		}
		a.table.pop()
		a.st.Timeouts++
		a.pace.trouble(now)
		s := &a.table.slots[at.slot]
		if s.attempts < a.o.Attempts {
			a.transmit(at.slot, now)
			continue
		}
		a.fail(at.slot, Timeout, 0, now)
	}
}

// begin starts as many queries as window, pace and zones permit, and reports
// whether only the size of a batch kept it from starting more.
func (a *asker) begin(now time.Time) (more bool) {
	for a.room() {
		if a.out.n >= batchSize {
			return true
		}
		if len(a.order) == 0 && !a.zones.ready() || !a.pace.allows(now) {
			return false
		}
		q, zone, ok := a.next()
		if !ok {
			return false
		}
		a.pace.spend(now)
		i := a.table.take(q)
		s := &a.table.slots[i]
		s.zone = zone
		s.first = now
		if t, known := a.before[int(q)]; known {
			s.first, s.earlier, s.silent = t.first, t.sent, t.silent
		}
		msg, err := appendQuery(s.msg, &a.queries[q], 0)
		if s.msg = msg; err != nil { // a name that no message can hold
			a.fail(i, Broken, 0, now)
			continue
		}
		a.transmit(i, now)
	}
	return false
}

// worth reports whether to send now. Without a pace to keep, queries leave when
// there is room for a whole batch: both ends then handle many at a time.
func (a *asker) worth() bool {
	free := a.pace.window - a.table.busy() - a.tcp.busy
	return a.pace.rate > 0 || free >= min(batchSize, a.pace.window/2) || a.table.busy() == 0 || a.out.n > 0
}

// room reports whether the window has any.
func (a *asker) room() bool { return a.table.busy()+a.tcp.busy < a.pace.window }

// next is the query to begin, one whose zone has room.
func (a *asker) next() (q int32, zone uint32, ok bool) {
	if q, zone, ok = a.zones.pop(); ok {
		return q, zone, true
	}
	for len(a.order) > 0 {
		q, a.order = a.order[0], a.order[1:]
		zone = a.zones.of(&a.queries[q])
		if a.zones.enter(zone) {
			return q, zone, true
		}
		a.zones.hold(q, zone)
	}
	return 0, 0, false
}

// transmit puts another attempt of a slot into the batch.
func (a *asker) transmit(i int32, now time.Time) {
	s := &a.table.slots[i]
	id := a.table.id(i)
	s.ids[s.attempts], s.sent[s.attempts] = id, now
	s.attempts++
	binary.BigEndian.PutUint16(s.msg, id)
	a.table.push(i, now)
	a.out.add(s.msg)
}

// send lets the batch leave.
func (a *asker) send() error {
	if a.out.n == 0 {
		return nil
	}
	sent := a.out.n
	err := a.conn.write(&a.out)
	a.st.Sent += sent
	if err != nil && (errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOBUFS) || unreachable(err)) {
		a.refused(err)
		return nil // what did not leave times out, and is sent again
	}
	return err
}

// receive waits for answers, no longer than until something else is due.
func (a *asker) receive(ctx context.Context, conn net.Conn, now time.Time) error {
	wait := maxWait
	if at, ok := a.table.oldest(); ok {
		wait = min(wait, at.at.Add(a.o.Timeout).Sub(now))
	}
	if a.room() && (len(a.order) > 0 || a.zones.ready()) {
		wait = min(wait, a.pace.wait(now))
	}
	if a.tcp.busy > 0 {
		wait = min(wait, 5*time.Millisecond)
	}
	if err := conn.SetReadDeadline(now.Add(max(wait, 50*time.Microsecond))); err != nil {
		return err
	}
	for {
		n, err := a.conn.read(&a.in)
		at := time.Now()
		for i := range n {
			a.take(ctx, a.in.message(i), at)
		}
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil
		case err != nil && (errors.Is(err, syscall.ECONNREFUSED) || unreachable(err)):
			a.refused(err)
			return nil
		case err != nil:
			return err
		case n < batchSize:
			return nil
		}
	}
}

// refused counts that nothing listens.
func (a *asker) refused(err error) {
	if !errors.Is(err, syscall.ENOBUFS) {
		a.refusals++
		a.dead = a.refusals >= deadAfter && a.st.Answered == 0
	}
}

// take reads one datagram.
func (a *asker) take(ctx context.Context, msg []byte, now time.Time) {
	if len(msg) < headerLen {
		a.st.Strange++
		return
	}
	id := binary.BigEndian.Uint16(msg)
	i, ok := a.table.find(id)
	if !ok || !sameQuestion(msg, a.table.slots[i].msg) {
		a.st.Strange++
		return
	}
	s := &a.table.slots[i]
	nth := 0
	for n, have := range s.ids[:s.attempts] {
		if have == id {
			nth = n
		}
	}
	if nth < s.attempts-1 {
		a.st.Late++
	}
	if err := a.got.read(msg, len(s.msg), a.typeOf(s.query)); err != nil {
		a.fail(i, Broken, 0, now)
		return
	}
	if a.got.truncated {
		a.fetch(ctx, i)
		return
	}
	a.decide(i, now, nth)
}

// decide ends a query with what was read, unless another server may know better.
func (a *asker) decide(i int32, now time.Time, nth int) {
	s := &a.table.slots[i]
	a.st.Answered++
	switch a.got.rcode {
	case dns.RcodeServerFailure:
		a.pace.trouble(now)
		if !a.last {
			a.fail(i, Answered, a.got.rcode, now)
			return
		}
	case dns.RcodeRefused, dns.RcodeNotImplemented:
		if !a.last {
			a.fail(i, Answered, a.got.rcode, now)
			return
		}
	default:
		a.pace.success(now)
	}
	a.deliver(&Answer{Index: int(s.query), Outcome: Answered, Rcode: a.got.rcode, Server: a.server, Took: now.Sub(s.sent[nth]),
		Silent: s.silent, Lost: nth, Waited: now.Sub(s.first), Sent: s.earlier + s.attempts, Names: a.got.names, Addrs: a.got.addrs,
		TTL: a.got.keeps(), Known: a.got.known})
	a.release(i)
}

// fail leaves a query to the next server, or delivers that none could tell.
func (a *asker) fail(i int32, o Outcome, rcode int, now time.Time) {
	s := &a.table.slots[i]
	silent := s.silent
	if o == Timeout {
		silent |= 1 << min(a.server, 63)
	}
	a.failed(s.query, task{first: s.first, sent: s.earlier + s.attempts, outcome: o, rcode: rcode, silent: silent}, now)
	a.release(i)
}

// failed is fail for a query that has no slot (any more). An rcode of an
// earlier server says more than the silence of a later one.
func (a *asker) failed(q int32, t task, now time.Time) {
	if was, ok := a.before[int(q)]; ok && was.outcome == Answered && t.outcome != Answered {
		t.outcome, t.rcode = was.outcome, was.rcode
	}
	if !a.last {
		a.before[int(q)] = t
		a.rest = append(a.rest, q)
		return
	}
	ans := Answer{Index: int(q), Outcome: t.outcome, Rcode: t.rcode, Server: a.server, Sent: t.sent, Silent: t.silent}
	if !t.first.IsZero() {
		ans.Waited = now.Sub(t.first)
	}
	a.deliver(&ans)
}

func (a *asker) release(i int32) {
	a.zones.leave(a.table.slots[i].zone)
	a.table.done(i)
}

// abandon ends the run early: ctx is over, or nothing listens here.
func (a *asker) abandon(ctx context.Context, now time.Time) []int32 {
	over := ctx.Err() != nil
	a.last = a.last || over
	unasked := Unasked
	if !over {
		unasked = Refused
	}
	if a.table != nil {
		for i := range a.table.slots {
			if s := &a.table.slots[i]; s.query >= 0 {
				o := Timeout
				if !over {
					o = Refused
				}
				a.fail(int32(i), o, 0, now)
			}
		}
		for _, f := range a.tcp.drain() {
			a.fetched(f)
		}
	}
	for {
		q, _, ok := a.zones.drain()
		if !ok {
			break
		}
		a.order = append(a.order, q)
	}
	for _, q := range append(a.order, a.restIf(over)...) {
		t := a.before[int(q)]
		if t.outcome == Unasked {
			t.outcome = unasked
		}
		a.failed(q, t, now)
	}
	a.order = nil
	return a.rest
}

// restIf hands over what was left for a next server that will not be asked.
func (a *asker) restIf(over bool) []int32 {
	if !over {
		return nil
	}
	rest := a.rest
	a.rest = nil
	return rest
}

// unreachable reports whether an error says that no packet gets there.
func unreachable(err error) bool {
	return errors.Is(err, syscall.ENETUNREACH) || errors.Is(err, syscall.EHOSTUNREACH) || errors.Is(err, syscall.ECONNREFUSED) ||
		errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.EPERM)
}
