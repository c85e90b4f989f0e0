package dnscheck

import (
	"fmt"
	"strings"
	"time"
)

// answered splits the time of an answer between the way to the resolver, the
// resolver, and what the resolver had to ask for.
func (j *judge) answered(rd *round, f *serverFacts, d time.Duration) {
	rest := j.rest(d, f)
	network := d - rest
	if f.swings > 0 && rest > slowUnseen {
		j.add(ResolverSlow, f.where, f.line, rest, true, fickleText(f))
		return
	}
	if far := min(rest, f.network()-network); far > 0 && network > 0 {
		// Only where another server is much nearer, see fair.
		j.add(ResolverSlow, f.where, f.line, far, f.way.Known(),
			fmt.Sprintf("%s is %s away, another configured server %s", f.where, ms(f.network()), ms(j.healthy)))
		rest -= far
	}
	warm, known := f.warm()
	if known && warm > 2*f.network()+slack {
		part := min(rest, warm-f.network())
		j.slow(part, f)
		rest -= part
		if d > warm+warm/2+slack && rest > slack {
			j.authoritySlow(rest, f)
		}
		return
	}
	if d > 2*max(f.network(), warm)+slack && rest > d/2 {
		j.authoritySlow(rest-max(0, warm-f.network()), f)
	}
}

func fickleText(f *serverFacts) string {
	return fmt.Sprintf("%s is slow now and then: the same question takes it from %s to %s", f.where, f.quickest, f.slowest)
}

// slow charges a resolver that takes long for what it knows.
func (j *judge) slow(d time.Duration, f *serverFacts) {
	own, ownKnown := f.own.Get()
	warm, _ := f.warm()
	text := fmt.Sprintf("%s takes %s for names it has just answered, %s away", f.where, ms(warm), ms(f.network()))
	// A forwarder without a cache looks the same; a question that it answers
	// itself tells.
	confirmed := ownKnown && own >= warm/2 && f.way.Known()
	if ownKnown && own < warm/2 {
		text = fmt.Sprintf("%s takes %s for names it has just answered but %s for its own: it keeps no cache, or what it asks is slow", f.where, ms(warm), ms(own))
	}
	j.add(ResolverSlow, f.where, f.line, d, confirmed, text)
}

// authoritySlow charges time that the resolver spent asking others. If each of
// several zones of a CNAME chain has its part, the chain is the cause.
func (j *judge) authoritySlow(d time.Duration, f *serverFacts) {
	zone, slowest, sum, count := j.zone, time.Duration(0), time.Duration(0), 0
	sent, answered := 0, 0
	warm, _ := f.warm()
	for _, c := range j.coldRows(f) {
		sent, answered = sent+c.Sent, answered+c.Answered
		extra := c.Median.Duration() - warm
		if c.Answered == 0 && c.Sent > 0 {
			extra = c.Wait.Duration()
		}
		if extra > slack {
			sum += extra
			count++
		}
		if extra > slowest {
			slowest = extra
			if c.Zone != "" {
				zone = strings.TrimSuffix(c.Zone, ".")
			} else {
				zone = strings.TrimSuffix(strings.TrimPrefix(c.Name, "*."), ".")
			}
		}
	}
	if count > 1 && slowest < sum*6/10 {
		j.add(CNAMEChain, j.main, 0, d, sum >= d/2,
			fmt.Sprintf("%s is an alias through %d names in %d slow zones", j.main, len(j.r.Stub.CNAME), count))
		return
	}
	if slowest == 0 {
		zone = j.zone
	}
	control := ""
	if sent > 0 && answered == 0 {
		control = fmt.Sprintf("; %d random names below it found no answer", sent)
	} else if sent > 0 {
		control = fmt.Sprintf("; random names below it take %s more", ms(max(0, slowest)))
	}
	e := j.add(AuthoritySlow, zone, 0, d, sent > 0 && (answered == 0 || slowest >= d/2), "")
	e.total = func(all time.Duration) string {
		return fmt.Sprintf("the first answer for %s took %s longer than one that %s knows", j.main, ms(all), f.where) + control
	}
}

// coldRows are the rows by way of f, or of any server if f has none.
func (j *judge) coldRows(f *serverFacts) []Server {
	if len(f.zones) > 0 {
		return f.zones
	}
	return j.r.Cold
}

// authority notes zones that are slow or silent though the stub was spared.
func (j *judge) authority() {
	if j.hasComponent(AuthoritySlow) || j.hasComponent(AuthorityDown) || j.hasComponent(CNAMEChain) {
		return
	}
	for _, f := range j.facts {
		warm, known := f.warm()
		if _, answered := f.nameSent(); !known || answered == 0 || f.swings > 0 {
			continue
		}
		for _, c := range f.zones {
			zone := strings.TrimSuffix(c.Zone, ".")
			if zone == "" {
				zone = strings.TrimSuffix(strings.TrimPrefix(c.Name, "*."), ".")
			}
			m := c.Median.Duration()
			switch {
			case c.Sent > 1 && c.Answered == 0:
				j.note(AuthorityDown, zone, 0, fmt.Sprintf("no random name below %s was answered within %s by way of %s; the name itself came from its cache", zone, c.Wait, f.where))
			case c.Rcode == "SERVFAIL" && f.rcode == "NOERROR":
				j.note(AuthorityDown, zone, 0, fmt.Sprintf("%s fails on random names below %s; the name itself came from its cache", f.where, zone))
			case m > warm+slowUnseen && m > 2*warm:
				j.note(AuthoritySlow, zone, 0, fmt.Sprintf("random names below %s take %s by way of %s; the name itself came from its cache", zone, ms(m), f.where))
			}
		}
	}
}

// servers notes faults of servers that did not delay the stub this time.
func (j *judge) servers() {
	for _, f := range j.facts {
		if !f.measured() {
			continue
		}
		_, answered := f.nameSent()
		lost, sent, lossy := f.lossy()
		warm, known := f.warm()
		switch {
		case f.dead() && f.refused:
			j.note(ResolverDown, f.where, f.line, fmt.Sprintf("nothing answers DNS at %s: its port is closed", f.where))
		case f.dead() && f.garbles:
			j.note(ResolverDown, f.where, f.line, fmt.Sprintf("the answers of %s cannot be read", f.where))
		case f.dead():
			j.note(ResolverDown, f.where, f.line, fmt.Sprintf("%s answers nothing: %d queries of every kind were lost", f.where, f.udpSent))
		case f.rcode == "REFUSED" || f.lame:
			j.note(Lame, f.where, f.line, fmt.Sprintf("%s does not resolve %s for this host", f.where, j.main))
		case f.rcode == "SERVFAIL" && !j.explained(f):
			j.servfail(f.firstMax, 0, false, f.ede, f)
		}
		if lossy && !j.has(AAAABlocked, f.where) {
			j.note(ResolverLoss, f.where, f.line, lossText(f, lost, sent))
		}
		if known && warm > 2*f.network()+slack && !j.has(ResolverSlow, f.where) {
			j.note(ResolverSlow, f.where, f.line, fmt.Sprintf("%s takes %s for names it has just answered, %s away", f.where, ms(warm), ms(f.network())))
		}
		if f.swings > 0 && f.swings+f.wobbles > 1 && !j.has(ResolverSlow, f.where) {
			j.note(ResolverSlow, f.where, f.line, fickleText(f))
		}
		if f.sent["AAAA"] > 0 && f.answered["AAAA"] == 0 && f.answered["A"] > 0 {
			j.note(AAAABlocked, f.where, f.line, fmt.Sprintf("%s answers A but none of %d AAAA queries for %s", f.where, f.sent["AAAA"], j.main))
		}
		if f.ednsFormerr || f.ednsSent > 1 && f.ednsAnswered == 0 && answered > 0 && f.failures == 0 {
			j.note(EDNS, f.where, f.line, fmt.Sprintf("%s does not answer queries with EDNS", f.where))
		}
	}
}

// explained reports whether a failing answer of f already has a finding.
func (j *judge) explained(f *serverFacts) bool {
	return j.has(Servfail, f.where) || j.hasComponent(Validation) || j.hasComponent(AuthorityDown) || j.has(Servfail, j.zone)
}
