package bulk

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// fetchers is how many answers are fetched over TCP at once.
const fetchers = 16

// fetcher gets the answers that do not fit a datagram.
type fetcher struct {
	o      *Options
	server int
	busy   int // begun and not handed over; of the asker's goroutine
	done   chan *fetch
	slots  chan struct{}
	wg     sync.WaitGroup
}

// fetch is one of them.
type fetch struct {
	query    int32
	zone     uint32
	first    time.Time
	sent     int
	silent   uint64
	msg      []byte
	typ      uint16
	took     time.Duration
	got      reply
	err      error
	finished time.Time
}

func newFetcher(o *Options, server int) *fetcher {
	return &fetcher{o: o, server: server, done: make(chan *fetch, o.Window), slots: make(chan struct{}, fetchers)}
}

// begin fetches beside everything else, within ctx. No more than Window are
// begun, so that done has room for all.
func (f *fetcher) begin(ctx context.Context, x *fetch) {
	f.busy++
	f.wg.Go(func() {
		f.slots <- struct{}{}
		defer func() { <-f.slots }()
		start := time.Now()
		x.err = f.exchange(ctx, x)
		x.finished = time.Now()
		x.took = x.finished.Sub(start)
		f.done <- x
	})
}

// finished are those that are done.
func (f *fetcher) finished() []*fetch {
	var all []*fetch
	for f.busy > 0 {
		select {
		case x := <-f.done:
			f.busy--
			all = append(all, x)
		default:
			return all
		}
	}
	return all
}

// drain waits for all; ctx has ended, or their own timeouts end them.
func (f *fetcher) drain() []*fetch {
	f.wg.Wait()
	return f.finished()
}

// exchange is RFC 7766: one question on one connection.
func (f *fetcher) exchange(ctx context.Context, x *fetch) error {
	ctx, cancel := context.WithTimeout(ctx, f.o.Timeout)
	defer cancel()
	c, err := f.o.Dial(ctx, "tcp", f.o.Servers[f.server])
	if err != nil {
		return err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	framed := binary.BigEndian.AppendUint16(make([]byte, 0, len(x.msg)+2), uint16(len(x.msg)))
	if _, err := c.Write(append(framed, x.msg...)); err != nil {
		return err
	}
	var size [2]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return err
	}
	msg := make([]byte, binary.BigEndian.Uint16(size[:]))
	if _, err := io.ReadFull(c, msg); err != nil {
		return err
	}
	if len(msg) < headerLen || binary.BigEndian.Uint16(msg) != binary.BigEndian.Uint16(x.msg) || !sameQuestion(msg, x.msg) {
		return errors.New("bulk: an answer to another question")
	}
	if err := x.got.read(msg, len(x.msg), x.typ); err != nil {
		return fmt.Errorf("%w: %w", errBroken, err)
	}
	if x.got.truncated {
		return fmt.Errorf("%w: truncated over TCP", errBroken)
	}
	return nil
}

var errBroken = errors.New("bulk: an answer that cannot be read")

// fetch hands a query over to TCP.
func (a *asker) fetch(ctx context.Context, i int32) {
	s := &a.table.slots[i]
	a.tcp.begin(ctx, &fetch{query: s.query, zone: s.zone, first: s.first, sent: s.earlier + s.attempts, silent: s.silent, msg: slices.Clone(s.msg),
		typ: a.typeOf(s.query)})
	a.table.done(i) // its zone stays taken
}

func (a *asker) typeOf(query int32) uint16 {
	if q := &a.queries[query]; !q.Addr.IsValid() {
		return q.Type
	}
	return dns.TypePTR
}

// fetched takes over what came over TCP.
func (a *asker) fetched(x *fetch) {
	a.zones.leave(x.zone)
	a.st.TCP++
	t := task{first: x.first, sent: x.sent + 1, outcome: Timeout, silent: x.silent}
	switch {
	case errors.Is(x.err, errBroken):
		t.outcome = Broken
	case x.err != nil && unreachable(x.err):
		t.outcome = Refused
	case x.err == nil:
		a.st.Answered++
		a.deliver(&Answer{Index: int(x.query), Outcome: Answered, Rcode: x.got.rcode, Server: a.server, Took: x.took,
			Waited: x.finished.Sub(x.first), Sent: t.sent, Silent: t.silent, TCP: true, Names: x.got.names, Addrs: x.got.addrs,
			TTL: x.got.keeps(), Known: x.got.known})
		return
	}
	a.failed(x.query, t, x.finished)
}
