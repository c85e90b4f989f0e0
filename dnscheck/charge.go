package dnscheck

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// charge finds who is to blame for one wait of the stub.
func (j *judge) charge(rd *round) {
	f := j.server(rd.server())
	lost := rd.find(silent)
	answered := rd.find((*Step).answered)
	switch {
	case rd.is(string(Interrupted)):
		j.interrupted(rd, f)
	case rd.find(unreachable) != nil && answered == nil && !rd.tcp():
		j.add(ResolverDown, f.where, f.line, rd.took, true, fmt.Sprintf("nothing answers DNS at %s: %s", f.where, reason(rd.find(unreachable))))
	case rd.tcp() && !j.useVC():
		j.truncatedTCP(rd, f)
	case rd.is("truncated"):
		j.truncatedUDP(rd, f)
	case lost != nil && answered != nil:
		j.oneLost(rd, f, lost)
	case rd.is(string(Malformed)) && answered == nil:
		j.add(ResolverDown, f.where, f.line, rd.took, f.garbles, fmt.Sprintf("the answers of %s for %s cannot be read", f.where, rd.name()))
	case answered == nil:
		j.silent(rd, f)
	case !same(rd.name(), j.main):
		j.search(rd.took)
	case rd.is("FORMERR") && j.option("edns0"):
		j.add(EDNS, f.where, f.line, rd.took, true, fmt.Sprintf("%s rejects queries with EDNS, which resolv.conf asks for", f.where))
	case rejected(answered) && rd.find(func(s *Step) bool { return s.answered() && !rejected(s) }) == nil:
		j.rejected(rd, f)
	default:
		j.answered(rd, f, rd.took)
	}
}

func reason(s *Step) string {
	switch Outcome(s.Rcode) {
	case Refused:
		return "its port is closed"
	case Unreachable:
		return "it cannot be reached"
	default:
		return "the connection was closed"
	}
}

func (j *judge) useVC() bool { return j.option("use-vc") }

func (j *judge) option(name string) bool {
	for _, o := range j.r.Config.Options {
		if strings.HasPrefix(o, name) {
			return true
		}
	}
	return false
}

// rest takes the one healthy round trip off d, once a resolution.
func (j *judge) rest(d time.Duration, f *serverFacts) time.Duration {
	if j.deducted {
		return d
	}
	j.deducted = true
	return max(0, d-j.fair(f))
}

// fair is what a healthy resolution by way of f costs: its own round trip, or
// that of another configured server where that is much nearer.
func (j *judge) fair(f *serverFacts) time.Duration {
	if n := f.network(); n > 3*j.healthy && n > j.healthy+50*time.Millisecond {
		return j.healthy
	} else if f.base.Known() || f.way.Known() {
		return n
	}
	return j.healthy
}

// interrupted charges a wait that ctx cut short: seconds of silence are a
// finding all the same.
func (j *judge) interrupted(rd *round, f *serverFacts) {
	if rd.took < giveUp || rd.find((*Step).answered) != nil {
		return
	}
	j.add(ResolverDown, f.where, f.line, rd.took, f.dead(), fmt.Sprintf("%s had not answered when the measurement was ended", f.where))
}

// search charges a candidate of the search list that was not the name wanted.
func (j *judge) search(d time.Duration) {
	c := &j.r.Config
	where := "search " + strings.Join(c.Search, " ")
	if len(c.Search) == 0 {
		where = "search ."
	}
	if c.Ndots != defaultNdots {
		where += " (ndots:" + strconv.Itoa(c.Ndots) + ")"
	}
	tried := map[string]bool{}
	for _, s := range j.r.Stub.Steps {
		if !same(s.Name, j.main) {
			tried[fqdn(s.Name)] = true
		}
	}
	j.add(SearchList, where, c.SearchLine, d, true,
		fmt.Sprintf("%d other names are asked for on the way to %s, because of the search list", len(tried), j.main))
}

// silent charges a wait in which nothing came back.
func (j *judge) silent(rd *round, f *serverFacts) {
	d := rd.took
	_, answered := f.nameSent()
	lost, sent, lossy := f.lossy()
	warm, known := f.warm()
	switch {
	case !f.measured():
		j.add(ResolverDown, f.where, f.line, d, false, fmt.Sprintf("%s did not answer", f.where))
	case f.dead():
		text := fmt.Sprintf("%s answers nothing: %d queries of every kind were lost", f.where, f.udpSent)
		if f.tcpAnswered > 0 {
			text = fmt.Sprintf("%s answers over TCP, but none of %d queries over UDP", f.where, f.udpSent)
		}
		j.add(ResolverDown, f.where, f.line, d, true, text)
	case answered == 0 && f.plainAnswered > 0 && j.option("edns0"):
		j.add(EDNS, f.where, f.line, d, true, fmt.Sprintf("queries with EDNS to %s are lost, those without are answered", f.where))
	case !same(rd.name(), j.main) && !lossy:
		j.search(d)
	case answered == f.failures && j.answeredElsewhere(f):
		j.add(ResolverDown, f.where, f.line, d, true, fmt.Sprintf("%s lives, but does not resolve: another server answers for %s", f.where, j.main))
	case answered == f.failures:
		j.add(AuthorityDown, j.zone, 0, d, true, fmt.Sprintf("%s answers other questions, but finds nobody who answers for %s", f.where, j.zone))
	case known && warm >= d*7/10:
		j.slow(d, f)
	case lossy:
		j.add(ResolverLoss, f.where, f.line, d, true, lossText(f, lost, sent))
	case f.authorityTroubled():
		// A resolver asks a slow authority several times, so that the first
		// lookup takes longer than the ones that follow show.
		j.authoritySlow(d, f)
	default:
		j.add(ResolverLoss, f.where, f.line, d, false,
			fmt.Sprintf("a query to %s, or its answer, was lost once; %d asked afterwards were all answered", f.where, f.udpSent))
	}
}

func lossText(f *serverFacts, lost, sent int) string {
	return fmt.Sprintf("queries to %s are lost on the way: %d of %d", f.where, lost, sent)
}

// answeredElsewhere reports whether another server answered for the name.
func (j *judge) answeredElsewhere(f *serverFacts) bool {
	for _, g := range j.facts {
		if _, n := g.nameSent(); g != f && n > 0 && g.rcode != "SERVFAIL" && g.rcode != "REFUSED" {
			return true
		}
	}
	return false
}

// oneLost charges a wait in which one of A and AAAA was answered and the other
// was not.
func (j *judge) oneLost(rd *round, f *serverFacts, lost *Step) {
	d := rd.took
	if rd.last {
		d = j.rest(d, f)
	}
	t := lost.Type
	_, all := f.nameSent()
	n, sent, lossy := f.lossy()
	switch {
	case f.sent[t] > 0 && f.answered[t] == 0 && all > 0 && t == "AAAA":
		j.add(AAAABlocked, f.where, f.line, d, true,
			fmt.Sprintf("%s answers A but none of %d AAAA queries for %s", f.where, f.sent[t], j.main))
	case f.sent[t] > 0 && f.answered[t] == 0 && all > 0:
		j.add(ResolverLoss, f.where, f.line, d, true,
			fmt.Sprintf("%s answers none of %d %s queries for %s, but others", f.where, f.sent[t], t, j.main))
	case f.sent[t] == 0 && t == "AAAA":
		j.add(AAAABlocked, f.where, f.line, d, false, fmt.Sprintf("%s answered A but not AAAA for %s", f.where, rd.name()))
	case !lossy && f.authorityTroubled():
		j.authoritySlow(d, f)
	case lossy:
		j.add(ResolverLoss, f.where, f.line, d, true, lossText(f, n, sent))
	default:
		j.add(ResolverLoss, f.where, f.line, d, false,
			fmt.Sprintf("of an A and AAAA query sent to %s from one socket, the %s was not answered; alone it is", f.where, t))
	}
}

// rejected charges a wait that ended in an answer which sends a stub on.
func (j *judge) rejected(rd *round, f *serverFacts) {
	d, last := rd.took, rd.last
	if last {
		d = j.rest(d, f)
	}
	s := rd.find(func(s *Step) bool { return s.Rcode == "SERVFAIL" })
	if s == nil {
		s = rd.find(rejected)
		what := "refuses to resolve"
		if s.Referral {
			what = "does not recurse: it gave neither an answer nor recursion for"
		}
		j.add(Lame, f.where, f.line, d, f.rcode == s.Rcode || f.lame, fmt.Sprintf("%s %s %s", f.where, what, rd.name()))
		return
	}
	why := s.EDE
	if why == "" {
		why = f.ede
	}
	j.servfail(rd.slowest(), d, true, why, f)
}

// servfail says what a SERVFAIL that took slow means, and charges d for it.
func (j *judge) servfail(slow, d time.Duration, charge bool, why string, f *serverFacts) {
	add := func(component, where string, line int, confirmed bool, text string) {
		if why != "" {
			text += " (" + why + ")"
		}
		if charge {
			j.add(component, where, line, d, confirmed, text)
		} else {
			j.note(component, where, line, text)
		}
	}
	switch code := edeCode(why); {
	case f.cdOK || code >= 1 && code <= 12 && code != 3 && code != 4:
		add(Validation, j.zone, 0, f.cdOK, fmt.Sprintf("%s fails DNSSEC validation at %s", j.zone, f.where))
	case j.answeredElsewhere(f):
		add(Servfail, f.where, f.line, f.rcode == "SERVFAIL", fmt.Sprintf("%s fails on %s, which another server resolves", f.where, j.main))
	case code == 22 || code == 23 || slow >= giveUp || f.firstMax >= giveUp || f.coldSent > 0 && f.coldAnswered == 0:
		add(AuthorityDown, j.zone, 0, code == 22 || code == 23 || f.rcode == "SERVFAIL",
			fmt.Sprintf("no authority for %s answers: %s gives up after %s", j.zone, f.where, ms(slow)))
	default:
		add(Servfail, j.zone, 0, f.rcode == "SERVFAIL", fmt.Sprintf("%s answers SERVFAIL for %s at once", f.where, j.main))
	}
}

// edeCode reads the number that ede wrote first, -1 if there is none.
func edeCode(s string) int {
	digits, _, _ := strings.Cut(s, " ")
	n, err := strconv.Atoi(strings.TrimSuffix(digits, ":"))
	if err != nil {
		return -1
	}
	return n
}

// truncatedUDP charges an answer that did not fit into a datagram: the time of
// a second round trip. What the resolver and the authority took is theirs.
func (j *judge) truncatedUDP(rd *round, f *serverFacts) {
	own := min(rd.took, max(f.network(), 0))
	if w, ok := f.warm(); ok {
		own = min(rd.took, max(own, w))
	}
	j.add(Truncation, f.where, f.line, own, true, truncationText(j.main, f))
	if rest := rd.took - own; rest > f.network()+slack {
		j.authoritySlow(rest, f)
	}
}

func (j *judge) truncatedTCP(rd *round, f *serverFacts) {
	text := truncationText(j.main, f)
	if rd.find((*Step).answered) == nil {
		text += ", and TCP fails: " + rd.steps[0].Rcode
	}
	d := rd.took
	if rd.last {
		d = j.rest(d, f)
	}
	j.add(Truncation, f.where, f.line, d, true, text)
}

func truncationText(name string, f *serverFacts) string {
	return fmt.Sprintf("the answer of %s for %s does not fit into a UDP datagram, so that it is asked for again over TCP", f.where, name)
}
