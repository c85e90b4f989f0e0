package delegation

import (
	"fmt"
	"strings"

	"github.com/miekg/dns"
)

// kind is what one reply of an authority says about a name.
type kind int

const (
	lame       kind = iota // nothing that helps, see reply.why
	answers                // records of the type asked
	alias                  // a CNAME, or a DNAME above the name
	referral               // another zone's servers
	noSuchName             // NXDOMAIN
	noSuchData             // the name exists without the type
	noEDNS                 // the server does not take the query's OPT record
	failed                 // SERVFAIL and other errors of its own
)

// reply is a classified message.
type reply struct {
	kind kind
	why  string // of lame and failed, a clause: "answers REFUSED"
	// target and link are of an alias: where it leads, and the record.
	target string
	link   dns.RR
	// cut is the zone that a referral leads to, or that a denial names as its
	// own, in lower case.
	cut string
}

// useful reports whether a resolver would go on with the reply.
func (r reply) useful() bool {
	switch r.kind {
	case answers, alias, referral, noSuchName, noSuchData:
		return true
	}
	return false
}

// classify says what m, from a server that is asked as one of zone's, means
// for name. All names are absolute and in lower case.
//
// RFC 1034, section 4.3.2, is what a server should do; the rest of this
// function is what servers do that do not.
func classify(zone, name string, qtype uint16, m *dns.Msg) reply {
	switch m.Rcode {
	case dns.RcodeSuccess, dns.RcodeNameError:
	case dns.RcodeFormatError, dns.RcodeNotImplemented, dns.RcodeBadVers:
		return reply{kind: noEDNS, why: "answers " + rcodeText(m.Rcode)}
	case dns.RcodeRefused, dns.RcodeNotAuth:
		return reply{kind: lame, why: "answers " + rcodeText(m.Rcode)}
	default:
		return reply{kind: failed, why: "answers " + rcodeText(m.Rcode)}
	}
	if r, ok := positive(name, qtype, m); ok {
		if !m.Authoritative {
			return reply{kind: lame, why: "answers without authority (no AA bit)" + cacheHint(m)}
		}
		return r
	}
	return negative(zone, name, m)
}

// positive looks for name in the answer section.
func positive(name string, qtype uint16, m *dns.Msg) (reply, bool) {
	var out reply
	found := false
	for _, rr := range m.Answer {
		h := rr.Header()
		owner := lower(h.Name)
		switch v := rr.(type) {
		case *dns.DNAME:
			// The DNAME decides, the CNAME beside it is made from it.
			if owner != name && dns.IsSubDomain(owner, name) && qtype != dns.TypeDNAME {
				if target, ok := substitute(name, owner, lower(v.Target)); ok {
					return reply{kind: alias, target: target, link: rr}, true
				}
			}
		case *dns.CNAME:
			if owner == name && qtype != dns.TypeCNAME && !(found && out.kind == answers) {
				out, found = reply{kind: alias, target: lower(v.Target), link: rr}, true
			}
		}
		if owner == name && h.Rrtype == qtype {
			out, found = reply{kind: answers}, true
		}
	}
	return out, found
}

// substitute is RFC 6672, section 2.2: the suffix from becomes to. It fails
// where the name would be too long.
func substitute(name, from, to string) (string, bool) {
	front := strings.TrimSuffix(name, from)
	if from == "." {
		front = name
	}
	out := front + to
	if to == "." {
		out = front
	}
	if _, ok := dns.IsDomainName(out); !ok || len(out) > 254 {
		return "", false
	}
	return out, true
}

// negative reads the authority section of a message that answers nothing.
func negative(zone, name string, m *dns.Msg) reply {
	var soa, ns string
	for _, rr := range m.Ns {
		switch owner := lower(rr.Header().Name); rr.(type) {
		case *dns.SOA:
			if soa == "" {
				soa = owner
			}
		case *dns.NS:
			if ns == "" {
				ns = owner
			}
		}
	}
	switch {
	case ns != "" && soa == "" && ns != zone && dns.IsSubDomain(zone, ns) && dns.IsSubDomain(ns, name) && m.Rcode == dns.RcodeSuccess:
		return reply{kind: referral, cut: ns}
	case ns != "" && soa == "" && !m.Authoritative:
		// To its own zone, to one above, or to somewhere else: the sign of a
		// server that does not have the zone.
		return reply{kind: lame, why: "refers to " + bare(ns) + " instead of answering" + cacheHint(m)}
	case !m.Authoritative:
		return reply{kind: lame, why: "answers without authority (no AA bit)" + cacheHint(m)}
	case soa != "" && !dns.IsSubDomain(soa, name):
		return reply{kind: lame, why: "denies by the SOA of " + bare(soa) + ", where the name is not"}
	case soa != "" && !dns.IsSubDomain(zone, soa):
		return reply{kind: lame, why: "answers from " + bare(soa) + ", above the zone it was given"}
	case m.Rcode == dns.RcodeNameError:
		return reply{kind: noSuchName, cut: soa}
	}
	return reply{kind: noSuchData, cut: soa}
}

// cacheHint tells a resolver from a server that merely lost its zone.
func cacheHint(m *dns.Msg) string {
	if m.RecursionAvailable {
		return ", as a resolver does"
	}
	return ""
}

func rcodeText(rc int) string {
	if s, ok := dns.RcodeToString[rc]; ok {
		return s
	}
	return fmt.Sprintf("RCODE%d", rc)
}

// lower is a name as names are compared here: absolute, lower case.
func lower(s string) string { return strings.ToLower(dns.Fqdn(s)) }

// bare is a name as people write it, without the root's dot.
func bare(s string) string {
	if len(s) > 1 {
		return strings.TrimSuffix(s, ".")
	}
	return s
}

// rrset returns the records of one owner and type in a section, and the
// signatures over them.
func rrset(section []dns.RR, owner string, qtype uint16) (set []dns.RR, sigs []*dns.RRSIG) {
	for _, rr := range section {
		if lower(rr.Header().Name) != owner {
			continue
		}
		if sig, ok := rr.(*dns.RRSIG); ok {
			if sig.TypeCovered == qtype {
				sigs = append(sigs, sig)
			}
			continue
		}
		if rr.Header().Rrtype == qtype {
			set = append(set, rr)
		}
	}
	return set, sigs
}

// leastTTL is the least TTL of records, nil if there are none.
func leastTTL(rrs []dns.RR) *int {
	var least *int
	for _, rr := range rrs {
		if ttl := int(rr.Header().Ttl); least == nil || ttl < *least {
			least = &ttl
		}
	}
	return least
}
