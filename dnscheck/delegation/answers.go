package delegation

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/miekg/dns"

	"github.com/whyslow/whyslow/dnscheck"
)

const (
	// maxAnswers bounds the records of the answer that are kept, maxText the
	// length of one.
	maxAnswers = 16
	maxText    = 300
)

// takeAnswers keeps what the authority answers.
func takeAnswers(v *dnscheck.Walk, s step, name string, qtype uint16) {
	set, _ := rrset(s.msg.Answer, name, qtype)
	v.TTL = leastTTL(set)
	for _, rr := range set {
		if len(v.Answers) == maxAnswers {
			break
		}
		text := strings.TrimPrefix(rr.String(), rr.Header().String())
		if ptr, ok := rr.(*dns.PTR); ok {
			text = bare(ptr.Ptr)
		}
		if len(text) > maxText {
			text = text[:maxText] + "…"
		}
		v.Answers = append(v.Answers, text)
	}
	slices.Sort(v.Answers)
}

// judgeAnswers checks the signatures of each link of the chain, and says
// whether the last came from a wildcard.
func (w *Walker) judgeAnswers(ctx context.Context, links []link, qtype uint16, r *Result) {
	worst, reason := secure, ""
	for _, l := range links {
		status, why := l.zone.trusted.status, l.zone.trusted.reason
		if why != "" {
			why = bare(l.zone.name) + ": " + why
		}
		// What lies above can be what fails; the topmost is the cause.
		for z := l.zone.parent; z != nil && (status == unchecked || status == bogus); z = z.parent {
			if up := z.trusted; rank(up.status) >= rank(status) {
				status, why = up.status, bare(z.name)+": "+up.reason
			}
		}
		switch {
		case status == secure && (l.step.outcome != "" || l.step.plain):
			status, why = unchecked, ""
		case status == secure:
			if bad := w.verifyLink(l, qtype); bad != "" {
				status, why = bogus, bad
			}
		}
		if rank(status) > rank(worst) {
			worst, reason = status, why
		}
	}
	if len(links) == 0 {
		worst = unchecked
	}
	r.Walk.Security, r.Walk.Reason = worst, reason
	if len(links) > 0 {
		r.Walk.Wildcard = w.wildcard(ctx, links[len(links)-1], qtype)
	}
}

// rank orders the states of trust by how bad they are.
func rank(status string) int {
	return slices.Index([]string{secure, unsigned, unsupported, unchecked, bogus}, status)
}

// verifyLink checks one answer of a zone whose keys are good.
func (w *Walker) verifyLink(l link, qtype uint16) string {
	s, t := l.step, l.zone.trusted
	owner, kindOf, section := l.name, qtype, s.msg.Answer
	switch s.reply.kind {
	case alias:
		h := s.reply.link.Header()
		owner, kindOf = lower(h.Name), h.Rrtype
	case noSuchName, noSuchData:
		owner, kindOf, section = l.zone.name, dns.TypeSOA, s.msg.Ns
		if !slices.ContainsFunc(section, func(rr dns.RR) bool {
			return rr.Header().Rrtype == dns.TypeNSEC || rr.Header().Rrtype == dns.TypeNSEC3
		}) {
			return s.server.String() + " denies " + bare(l.name) + " without the NSEC or NSEC3 records that prove it"
		}
	}
	set, sigs := rrset(section, owner, kindOf)
	if bad := w.verify(t, l.zone.name, set, sigs); bad != "" {
		return "the " + dns.TypeToString[kindOf] + " records of " + bare(owner) + " from " + s.server.String() + " " + bad
	}
	return ""
}

// wildcard tells an answer made from a wildcard: a signature says so by its
// number of labels (RFC 4034, section 3.1.3), and without one a random name
// beside it has the same answer.
func (w *Walker) wildcard(ctx context.Context, l link, qtype uint16) *bool {
	s := l.step
	if s.outcome != "" || s.reply.kind != answers || l.name == l.zone.name {
		return nil
	}
	set, sigs := rrset(s.msg.Answer, l.name, qtype)
	if len(sigs) > 0 {
		is := int(sigs[0].Labels) < dns.CountLabel(l.name)
		return &is
	}
	var b [8]byte
	rand.Read(b[:])
	beside := "whyslow-" + hex.EncodeToString(b[:]) + "." + strings.TrimPrefix(parentName(l.name), ".")
	if _, ok := dns.IsDomainName(beside); !ok || !dns.IsSubDomain(l.zone.name, beside) {
		return nil
	}
	r := w.k.whole(ctx, question{server: s.server, name: beside, qtype: qtype})
	if r.msg == nil {
		return nil
	}
	other, _ := rrset(r.msg.Answer, beside, qtype)
	is := len(other) == len(set) && len(set) > 0 && slices.Equal(data(set), data(other))
	return &is
}

// data is the records' contents without their owner and TTL, sorted.
func data(set []dns.RR) []string {
	var out []string
	for _, rr := range set {
		out = append(out, strings.TrimPrefix(rr.String(), rr.Header().String()))
	}
	slices.Sort(out)
	return out
}
