package dnscheck

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/miekg/dns"
	"github.com/whyslow/whyslow/internal/millis"
)

const (
	// maxAddrs bounds the addresses taken from one name.
	maxAddrs = 256
	// maxChain bounds the CNAMEs followed within an answer.
	maxChain = 32
)

func itoa(i int) string { return strconv.Itoa(i) }

// stub resolves name, which is ASCII, as getaddrinfo of the model would: the hosts file,
// then the DNS.
func (s *session) stub(ctx context.Context, name string) *Stub {
	r := &stubRun{model: s.model, ex: s.ex, cfg: s.cfg, port: s.port, start: time.Now()}
	out := &Stub{Model: string(s.model), Source: "dns", Addrs: []netip.Addr{}, Steps: []Step{}}
	if !s.o.NoHosts {
		if addrs := lookupHosts(s.o.Hosts, name, s.o.Family); len(addrs) > 0 {
			out.Addrs, out.Source, out.Rcode, out.Name = addrs, "hosts", "NOERROR", name
			out.Elapsed = millis.Of(time.Since(r.start))
			out.Notes = []string{"the hosts file answered; nsswitch is assumed to ask files before dns"}
			return out
		}
	}
	if s.cfg.Rotate {
		r.rotation = rand.IntN(len(s.cfg.Nameservers))
	}
	types := s.o.Family.types()
	if s.cfg.NoAAAA {
		types = slices.DeleteFunc(types, func(t uint16) bool { return t == dns.TypeAAAA })
	}
	res := queryResult{herrno: noData}
	if len(types) > 0 {
		res = r.search(ctx, name, types)
	}
	out.Elapsed = millis.Of(time.Since(r.start))
	out.Steps = append(out.Steps, r.steps...)
	out.Notes = r.notes
	out.Rcode = r.outcome(res)
	if res.herrno == success {
		out.Addrs, out.CNAME = addresses(res.name, res.sent.answers, types)
		out.Name = dns.Fqdn(res.name)
		if len(out.Addrs) == 0 {
			out.Rcode, out.Name = "NODATA", ""
			if res.sent.malformed {
				out.Rcode = string(Malformed)
			}
		}
	}
	return out
}

// types are the questions of a family, in the order glibc sends them.
func (f Family) types() []uint16 {
	switch f {
	case IPv4:
		return []uint16{dns.TypeA}
	case IPv6:
		return []uint16{dns.TypeAAAA}
	default:
		return []uint16{dns.TypeA, dns.TypeAAAA}
	}
}

// herrno is h_errno after one query (netdb.h).
type herrno int

const (
	success herrno = iota
	hostNotFound
	tryAgain
	noRecovery
	noData
)

// queryResult is what __res_context_query returns.
type queryResult struct {
	herrno   herrno
	name     string // the name asked
	sent     sent
	servfail bool // the last reply was SERVFAIL
}

// glibcQuery is __res_context_query: send, then see what the answers amount to.
func (r *stubRun) glibcQuery(ctx context.Context, name string, types []uint16) queryResult {
	s := r.send(ctx, name, types)
	q := queryResult{name: name, sent: s, herrno: tryAgain, servfail: s.rejected == "SERVFAIL"}
	if s.failed || s.interrupted {
		return q
	}
	if s.malformed && len(s.answers) == 0 {
		q.herrno = noRecovery
		return q
	}
	first, second := s.answers[0].Msg, s.answers[len(s.answers)-1].Msg
	for _, a := range s.answers {
		if a.Msg.Rcode == dns.RcodeSuccess && len(a.Msg.Answer) > 0 {
			q.herrno = success
			return q
		}
	}
	rc := first.Rcode
	if rc == dns.RcodeSuccess {
		rc = second.Rcode
	}
	switch rc {
	case dns.RcodeNameError:
		q.herrno = hostNotFound
	case dns.RcodeServerFailure:
		q.herrno, q.servfail = tryAgain, true
	case dns.RcodeSuccess:
		q.herrno = noData
	default:
		q.herrno = noRecovery
	}
	return q
}

// glibcSearch is __res_context_search: the name as it is if it has dots enough, the
// search list, and the name as it is if that was not tried yet.
func (r *stubRun) glibcSearch(ctx context.Context, name string, types []uint16) queryResult {
	dots := strings.Count(name, ".")
	trailing := strings.HasSuffix(name, ".")
	bare := func() queryResult { return r.query(ctx, name, types) }

	var asIs, last queryResult
	triedAsIs := false
	if dots >= r.cfg.Ndots || trailing {
		asIs, triedAsIs = bare(), true
		if asIs.herrno == success || trailing || asIs.sent.interrupted {
			return asIs
		}
	}
	last = queryResult{herrno: hostNotFound, name: name}
	var gotNoData, gotServfail bool
	list := slices.Clone(r.cfg.Search)
	if r.cfg.SearchRoot {
		list = append(list, "")
	}
	for _, domain := range list {
		if len(name)+1+len(domain) > maxNameLen {
			continue // glibc fails on it without asking
		}
		if domain == "" {
			last = bare()
		} else {
			last = r.query(ctx, name+"."+domain, types)
		}
		if last.herrno == success || last.sent.interrupted {
			return last
		}
		if last.sent.failed && !last.sent.gotSomewhere {
			return last // no server at all: give up
		}
		if last.herrno == noData {
			gotNoData = true
		}
		if last.herrno == tryAgain && last.servfail {
			gotServfail = true
		}
		if last.herrno == noRecovery || last.herrno == tryAgain && !last.servfail {
			break
		}
	}
	tldOK := dots > 0 || len(list) == 0 || !r.cfg.NoTLDQuery
	if tldOK && !triedAsIs && !r.cfg.SearchRoot {
		last = bare()
		if last.herrno == success || last.sent.interrupted {
			return last
		}
	}
	switch {
	case triedAsIs:
		return asIs
	case gotNoData:
		last.herrno = noData
	case gotServfail:
		last.herrno, last.sent.rejected = tryAgain, "SERVFAIL"
	}
	return last
}

// outcome names a result as Stub.Rcode does.
func (r *stubRun) outcome(q queryResult) string {
	switch {
	case q.sent.interrupted:
		return string(Interrupted)
	case q.herrno == success:
		return "NOERROR"
	case q.herrno == hostNotFound:
		return "NXDOMAIN"
	case q.herrno == noData:
		return "NODATA"
	case q.sent.malformed:
		return string(Malformed)
	case len(q.sent.answers) > 0:
		return rcodeString(q.sent.answers[0].Msg.Rcode)
	case q.sent.rejected != "":
		return q.sent.rejected
	}
	for i := len(r.steps) - 1; i >= 0 && !q.sent.gotSomewhere; i-- {
		if rc := r.steps[i].Rcode; rc != abandoned {
			return rc
		}
	}
	return string(Timeout)
}

// addresses follows the CNAMEs from name through the answers and collects the
// addresses at their end, A before AAAA.
func addresses(name string, answers []*Answer, types []uint16) ([]netip.Addr, []string) {
	addrs := []netip.Addr{}
	var chain []string
	for _, t := range types {
		for _, a := range answers {
			if len(a.Msg.Question) == 0 || a.Msg.Question[0].Qtype != t {
				continue
			}
			found, links := follow(name, a.Msg.Answer)
			if len(links) > len(chain) {
				chain = links
			}
			for _, f := range found {
				if len(addrs) < maxAddrs && !slices.Contains(addrs, f) {
					addrs = append(addrs, f)
				}
			}
		}
	}
	return addrs, chain
}

// follow walks one answer section, whatever the order of its records. A loop
// of CNAMEs ends it.
func follow(name string, rrs []dns.RR) (addrs []netip.Addr, chain []string) {
	alias := map[string]string{}
	for _, rr := range rrs {
		if c, ok := rr.(*dns.CNAME); ok {
			alias[fqdn(c.Hdr.Name)] = c.Target
		}
	}
	at := fqdn(name)
	seen := map[string]bool{at: true}
	for len(chain) < maxChain {
		next, ok := alias[at]
		if !ok {
			break
		}
		chain = append(chain, next)
		if at = fqdn(next); seen[at] {
			break
		}
		seen[at] = true
	}
	for _, rr := range rrs {
		if fqdn(rr.Header().Name) != at {
			continue
		}
		var ip []byte
		switch x := rr.(type) {
		case *dns.A:
			ip = x.A.To4()
		case *dns.AAAA:
			ip = x.AAAA.To16()
		}
		if a, ok := netip.AddrFromSlice(ip); ok {
			addrs = append(addrs, a)
		}
	}
	return addrs, chain
}
