package servers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
)

// Action is what a DNS server does with a query instead of answering it.
type Action uint8

// The actions.
const (
	Answer      Action = iota // the right answer
	Drop                      // nothing at all
	ServFail                  // SERVFAIL
	Refuse                    // REFUSED
	NXDomain                  // NXDOMAIN without a SOA
	Lame                      // an upward referral without authority, as a server that lacks the zone gives
	Truncate                  // over UDP an empty answer with TC set
	GarbageLoop               // an answer whose names are compression pointers to themselves
)

// DNSFault is one fault of a DNS server. It hits a query that meets all its
// conditions; the zero conditions are met by all.
type DNSFault struct {
	// Suffix of the name asked for. Empty means all names.
	Suffix string
	// Types asked for, such as dns.TypeAAAA. Nil means all.
	Types []uint16
	// Transport is "udp" or "tcp". Empty means both.
	Transport string
	// Share of the queries hit, 0…1. Zero means 1.
	Share float64

	Delay  time.Duration
	Action Action
}

func (f DNSFault) hits(q dns.Question, transport string, dice func() float64) bool {
	return (f.Suffix == "" || dns.IsSubDomain(dns.Fqdn(f.Suffix), q.Name)) &&
		(f.Types == nil || slices.Contains(f.Types, q.Qtype)) &&
		(f.Transport == "" || f.Transport == transport) &&
		(f.Share == 0 || dice() < f.Share)
}

// DNS is a running DNS server.
type DNS struct {
	udp    []net.PacketConn
	tcp    []net.Listener
	answer func(context.Context, *dns.Msg) *dns.Msg
	all    []*dns.Server
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup // the servers
	active sync.RWMutex   // held for reading by each query

	queries atomic.Int64
	mu      sync.Mutex
	faults  []DNSFault
	dice    *rand.Rand
	asked   map[dns.Question]int
}

// dnsConfig is what all DNS servers have in common.
type dnsConfig struct {
	place  Place
	addrs  []netip.AddrPort
	noTCP  bool
	faults []DNSFault
	seed   uint64
	answer func(context.Context, *dns.Msg) *dns.Msg
}

func startDNS(c dnsConfig) (*DNS, error) {
	s := &DNS{
		answer: c.answer, faults: c.faults, asked: map[dns.Question]int{},
		dice: rand.New(rand.NewPCG(c.seed, 0x646e73)),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	for _, a := range c.addrs {
		if err := s.listen(c.place, a, c.noTCP); err != nil {
			return nil, errors.Join(fmt.Errorf("servers: DNS on %s: %w", a, err), s.closeSockets())
		}
	}
	for _, pc := range s.udp {
		s.serve(&dns.Server{PacketConn: pc}, "udp")
	}
	for _, l := range s.tcp {
		s.serve(&dns.Server{Listener: l}, "tcp")
	}
	return s, nil
}

func (s *DNS) listen(p Place, a netip.AddrPort, noTCP bool) error {
	pc, err := p.ListenPacket("udp", a.String())
	if err != nil {
		return err
	}
	s.udp = append(s.udp, pc)
	if noTCP {
		return nil
	}
	// The port that the kernel chose, where 0 was asked for.
	l, err := p.Listen("tcp", pc.LocalAddr().String())
	if err != nil {
		return err
	}
	s.tcp = append(s.tcp, l)
	return nil
}

func (s *DNS) serve(server *dns.Server, transport string) {
	server.Handler = dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) { s.handle(w, q, transport) })
	started := make(chan struct{})
	server.NotifyStartedFunc = func() { close(started) }
	s.all = append(s.all, server)
	s.wg.Go(func() { _ = server.ActivateAndServe() })
	// Shutdown of a server that did not start yet does nothing.
	<-started
}

// Addrs are the addresses that the server answers on.
func (s *DNS) Addrs() []netip.AddrPort {
	var out []netip.AddrPort
	for _, pc := range s.udp {
		if a, ok := pc.LocalAddr().(*net.UDPAddr); ok {
			out = append(out, a.AddrPort())
		}
	}
	return out
}

// SetFaults replaces the server's faults.
func (s *DNS) SetFaults(faults ...DNSFault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = faults
}

// Queries counts the queries received so far.
func (s *DNS) Queries() int64 { return s.queries.Load() }

// Asked counts the queries received for one name and type.
func (s *DNS) Asked(name string, qtype uint16) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[dns.Question{Name: strings.ToLower(dns.Fqdn(name)), Qtype: qtype, Qclass: dns.ClassINET}]
}

// Close ends the server.
func (s *DNS) Close() error {
	s.cancel()
	var errs []error
	for _, server := range s.all {
		errs = append(errs, server.Shutdown())
	}
	s.wg.Wait()
	s.active.Lock() // until the last query is through
	defer s.active.Unlock()
	return errors.Join(errs...)
}

func (s *DNS) closeSockets() error {
	var errs []error
	for _, pc := range s.udp {
		errs = append(errs, pc.Close())
	}
	for _, l := range s.tcp {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

// handle answers one query, or does what its first fault wants.
func (s *DNS) handle(w dns.ResponseWriter, q *dns.Msg, transport string) {
	s.active.RLock()
	defer s.active.RUnlock()
	if len(q.Question) != 1 {
		_ = w.WriteMsg(new(dns.Msg).SetRcode(q, dns.RcodeFormatError))
		return
	}
	fault := s.note(q.Question[0], transport)
	if !pause(s.ctx, fault.Delay) || fault.Action == Drop {
		return
	}
	if fault.Action == GarbageLoop {
		_, _ = w.Write(loop(q))
		return
	}
	reply := s.reply(q, fault.Action, transport)
	if transport == "udp" {
		size := dns.MinMsgSize
		if opt := q.IsEdns0(); opt != nil {
			size = max(size, int(opt.UDPSize()))
		}
		reply.Truncate(size)
	}
	_ = w.WriteMsg(reply)
}

// note counts a query and returns the first fault that hits it.
func (s *DNS) note(q dns.Question, transport string) DNSFault {
	s.queries.Add(1)
	q.Name = strings.ToLower(q.Name)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[q]++
	for _, f := range s.faults {
		if f.hits(q, transport, s.dice.Float64) {
			return f
		}
	}
	return DNSFault{}
}

func (s *DNS) reply(q *dns.Msg, a Action, transport string) *dns.Msg {
	switch {
	case a == ServFail:
		return new(dns.Msg).SetRcode(q, dns.RcodeServerFailure)
	case a == Refuse:
		return new(dns.Msg).SetRcode(q, dns.RcodeRefused)
	case a == NXDomain:
		return new(dns.Msg).SetRcode(q, dns.RcodeNameError)
	case a == Lame:
		m := new(dns.Msg).SetReply(q)
		m.Ns = []dns.RR{&dns.NS{
			Hdr: dns.RR_Header{Name: ".", Rrtype: dns.TypeNS, Class: dns.ClassINET, Ttl: 3600},
			Ns:  "a.root-servers.invalid.",
		}}
		return m
	}
	m := s.answer(s.ctx, q)
	if a == Truncate && transport == "udp" {
		// With the flags of the whole answer: without RA it would look lame.
		m.Truncated, m.Answer, m.Ns, m.Extra = true, nil, nil, nil
	}
	if opt := q.IsEdns0(); opt != nil && m.IsEdns0() == nil {
		m.SetEdns0(1232, opt.Do())
	}
	return m
}

// loop is a reply to q with one answer whose owner name is a compression
// pointer to itself (RFC 1035 4.1.4).
func loop(q *dns.Msg) []byte {
	m := new(dns.Msg).SetReply(q)
	b, err := m.Pack()
	if err != nil {
		return nil
	}
	b[7] = 1 // ANCOUNT
	at := len(b)
	b = append(b, 0xc0|byte(at>>8), byte(at))
	return append(b, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 1)
}
