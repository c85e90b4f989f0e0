package reports

import (
	"time"

	"github.com/whyslow/whyslow/httpcheck"
	"github.com/whyslow/whyslow/internal/millis"
	"github.com/whyslow/whyslow/internal/stats"
)

// view is a report as the judge reads it: the same facts, by question.
type view struct {
	r *Report
	// rtt is the least TCP round trip seen, the yardstick of everything else.
	rtt      time.Duration
	rttKnown bool
	visits   []visit // the cold samples that succeeded
	stalled  []visit // cold samples that ended in a timeout
	// server holds the server's own time (wait − least RTT) by the place of
	// the load on its connection: 1 opened it, 2 is the next.
	server map[int][]time.Duration
	// unhurt are those of them during which no packet was seen to be lost.
	unhurt map[int][]time.Duration
	place  int // of the sample being read
	// control is the server's time for something small and static, the
	// fastest of what was tried.
	control      time.Duration
	controlKnown bool
	controlName  string
	// redirectThink is the server's own time for the redirects of a visit, as
	// far as it does not depend on their being first on a connection.
	redirectThink time.Duration
}

// visit is one cold load: the page and its redirects over fresh connections.
type visit struct {
	resolve, connect, tls, send, wait, receive time.Duration
	// total is the time of all exchanges, measured as a whole.
	total     time.Duration
	conns     int    // connections opened
	tlsTrips  int    // round trips its handshakes need
	waits     int    // requests sent
	bytes     int64  // of the last body
	truncated string // as Exchange.Truncated of the last body
	// hops is the time of all exchanges but the last.
	redirects    int
	redirectTime time.Duration
	retransmits  int
	synLost      int
	outOfOrder   bool
	advMSS       int  // of the last connection, 0 if unknown
	tcpInfo      bool // the kernel told of lost segments
	sample       *httpcheck.Sample
}

// newView reads a report.
func newView(r *Report) *view {
	v := &view{r: r, server: map[int][]time.Duration{}, unhurt: map[int][]time.Duration{}}
	if r.HTTP == nil {
		return v
	}
	v.redirectThink = redirectThink(r.HTTP.Samples)
	for i := range r.HTTP.Samples {
		v.addSample(&r.HTTP.Samples[i])
	}
	for i := range r.HTTP.Controls {
		v.addControl(&r.HTTP.Controls[i])
	}
	return v
}

func (v *view) addSample(s *httpcheck.Sample) {
	for i := range s.Exchanges {
		v.seeRTT(&s.Exchanges[i])
	}
	v.place++
	if s.Cold {
		v.place = 1
		if visit := newVisit(s); s.Failure == nil {
			v.visits = append(v.visits, visit)
		} else if s.Failure.Kind == "timeout" {
			v.stalled = append(v.stalled, visit)
		}
	}
	if s.Failure == nil {
		if d, ok := serverTime(s); ok {
			if len(s.Exchanges) > 1 {
				d = max(d-v.redirectThink, 0) // else it would look like work once a connection
			}
			v.server[v.place] = append(v.server[v.place], d)
			if !showsLoss(s) {
				v.unhurt[v.place] = append(v.unhurt[v.place], d)
			}
		}
	}
}

// showsLoss reports whether segments were lost while a sample was taken, as far
// as this side can tell; true where it can't.
func showsLoss(s *httpcheck.Sample) bool {
	for _, e := range s.Exchanges {
		before, after := e.TCPStart, e.TCP
		if before == nil || after == nil || after.Retrans > before.Retrans || after.OutOfOrder > before.OutOfOrder {
			return true
		}
	}
	return false
}

// seeRTT lowers the yardstick by what one exchange shows. A connect time is a
// round trip too, unless a SYN was sent again.
func (v *view) seeRTT(e *httpcheck.Exchange) {
	try := func(m millis.Value) {
		if d, ok := m.Get(); ok && d > 0 && (!v.rttKnown || d < v.rtt) {
			v.rtt, v.rttKnown = d, true
		}
	}
	try(e.Network)
	if e.TCP != nil {
		try(e.TCP.MinRTT)
	}
	if e.TCPStart == nil || e.TCPStart.Retrans == 0 {
		try(e.Phases.Connect)
	}
}

// redirectThink is the least time the server spent on the redirects of one
// sample. It is 0 unless a warm sample followed them too: on cold ones alone,
// what a redirect costs can't be told from what a connection costs.
func redirectThink(samples []httpcheck.Sample) time.Duration {
	least, known, warm := time.Duration(0), false, false
	for i := range samples {
		s := samples[i]
		n := len(s.Exchanges) - 1
		if s.Failure != nil || n < 1 {
			continue
		}
		s.Exchanges = s.Exchanges[:n]
		d, ok := serverTime(&s)
		if !ok {
			continue
		}
		warm = warm || !s.Cold
		if !known || d < least {
			least, known = d, true
		}
	}
	if !warm {
		return 0
	}
	return least
}

// serverTime is the time the server spent on all exchanges of a sample.
func serverTime(s *httpcheck.Sample) (time.Duration, bool) {
	var sum time.Duration
	for i := range s.Exchanges {
		d, ok := s.Exchanges[i].Server.Get()
		if !ok {
			return 0, false
		}
		sum += d
	}
	return sum, len(s.Exchanges) > 0
}

func newVisit(s *httpcheck.Sample) visit {
	v := visit{sample: s, redirects: max(len(s.Exchanges)-1, 0)}
	for i := range s.Exchanges {
		e := &s.Exchanges[i]
		p := e.Phases
		v.resolve += p.Resolve.Duration()
		v.connect += p.Connect.Duration()
		v.tls += p.TLS.Duration()
		v.send += p.Send.Duration()
		v.wait += p.Wait.Duration()
		v.receive += p.Receive.Duration()
		whole := phaseSum(p)
		if t, ok := p.Total.Get(); ok {
			whole = max(whole, t)
		}
		if e.Failure != nil {
			whole = max(whole, e.Failure.After.Duration()) // at least so long
		}
		whole -= p.Resolve.Duration() // accounted for by the stub
		if e.Truncated == "stream" {
			// How long one listens to what never ends is no time of a load.
			v.receive -= p.Receive.Duration()
			whole -= p.Receive.Duration()
		}
		v.total += whole
		v.bytes, v.truncated = e.Bytes, e.Truncated
		v.waits++
		if p.Connect.Known() {
			v.conns++
		}
		if e.TLS != nil && p.TLS.Known() {
			v.tlsTrips += max(e.TLS.RoundTrips, 1)
		}
		if i < len(s.Exchanges)-1 {
			v.redirectTime += whole
		}
		v.addTCP(e)
	}
	return v
}

func phaseSum(p httpcheck.Phases) time.Duration {
	return p.Resolve.Duration() + p.Connect.Duration() + p.TLS.Duration() +
		p.Send.Duration() + p.Wait.Duration() + p.Receive.Duration()
}

func (v *visit) addTCP(e *httpcheck.Exchange) {
	if e.TCPStart != nil && e.Phases.Connect.Known() {
		v.synLost += e.TCPStart.Retrans
	}
	if e.TCP != nil {
		v.tcpInfo, v.advMSS = true, e.TCP.AdvMSS
		v.retransmits += e.TCP.Retrans
		v.outOfOrder = v.outOfOrder || e.TCP.OutOfOrder > 0
	}
}

// warmLoads is how many loads over an open connection there were.
func (v *view) warmLoads() int {
	n := 0
	for place, loads := range v.server {
		if place > 1 {
			n += len(loads)
		}
	}
	return n
}

// addControl keeps the fastest small resource. A server's error is no
// yardstick for its healthy work; a 404 is.
func (v *view) addControl(c *httpcheck.Control) {
	switch c.Name {
	case "static", "not-found", "options":
	default:
		return
	}
	for _, e := range append([]httpcheck.Exchange{c.Exchange}, c.Runs...) {
		d, ok := e.Server.Get()
		if !ok || e.Failure != nil || e.Status == 0 || e.Status >= 500 {
			continue
		}
		if !v.controlKnown || d < v.control {
			v.control, v.controlKnown, v.controlName = d, true, c.Name
		}
	}
}

// findControl returns the control of a name, nil if it was not run.
func (v *view) findControl(name string) *httpcheck.Control {
	if v.r.HTTP == nil {
		return nil
	}
	for i := range v.r.HTTP.Controls {
		if v.r.HTTP.Controls[i].Name == name {
			return &v.r.HTTP.Controls[i]
		}
	}
	return nil
}

// series is one phase over the visits.
type series []time.Duration

// phase collects one phase of every visit.
func (v *view) phase(of func(visit) time.Duration) series {
	s := make(series, 0, len(v.visits))
	for _, one := range v.visits {
		s = append(s, of(one))
	}
	return s
}

// structural is what every visit pays: the least.
func (s series) structural() time.Duration {
	if len(s) == 0 {
		return 0
	}
	least := s[0]
	for _, d := range s {
		least = min(least, d)
	}
	return least
}

// typical is the median.
func (s series) typical() time.Duration {
	if len(s) == 0 {
		return 0
	}
	return stats.Median([]time.Duration(s))
}

// upperQuartile is what a quarter of the visits exceed.
func (s series) upperQuartile() time.Duration {
	if len(s) == 0 {
		return 0
	}
	return stats.Quantile([]time.Duration(s), 0.75)
}

// mean is what chance costs on average.
func (s series) mean() time.Duration {
	if len(s) == 0 {
		return 0
	}
	var sum time.Duration
	for _, d := range s {
		sum += d
	}
	return sum / time.Duration(len(s))
}
