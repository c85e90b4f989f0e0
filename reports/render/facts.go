package render

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/whyslow/whyslow/httpcheck"
	"github.com/whyslow/whyslow/internal/millis"
)

// fact is a named value of a report.
type fact struct{ name, value string }

// factCollector collects the facts that are known.
type factCollector []fact

func (f *factCollector) add(name, value string) {
	if value != "" {
		*f = append(*f, fact{name, value})
	}
}

// line is the facts one after the other.
func (f factCollector) line() string {
	parts := make([]string, len(f))
	for i, one := range f {
		parts[i] = one.name + " " + one.value
	}
	return strings.Join(parts, ", ")
}

// facts writes one fact after the other, wrapped below its name: no value is
// cut, however narrow the page.
func (s *sheet) facts(all []fact, indent int) {
	width := 0
	for _, f := range all {
		width = max(width, columns(f.name))
	}
	lead := strings.Repeat(" ", indent)
	hang := strings.Repeat(" ", indent+width+2)
	for _, f := range all {
		s.hung(cell{lead + pad(f.name, width+1, false) + " ", dim}, hang, cell{text: f.value})
	}
}

// httpFacts names what was talked to and how.
func httpFacts(h *httpcheck.Result) []fact {
	var facts factCollector
	ex := mainExchange(h)
	if ex != nil {
		facts.peer(ex)
	}
	facts.add("server", serverText(&h.Summary))
	facts.add("body", bodyText(h))
	if ex != nil {
		facts.connection(ex, h.Summary.MinRTT)
	}
	if h.Requests > 0 {
		facts.add("requests", strconv.Itoa(h.Requests)+" sent in all")
	}
	return facts
}

// peer adds what an exchange tells of who answered.
func (f *factCollector) peer(ex *httpcheck.Exchange) {
	var response []string
	if ex.Status > 0 {
		response = append(response, strconv.Itoa(ex.Status))
	}
	response = append(response, ex.Protocol)
	if ex.TLS != nil {
		response = append(response, ex.TLS.Version)
	}
	if ex.Remote != "" {
		response = append(response, "from "+ex.Remote)
	}
	f.add("response", nonEmpty(", ", response...))
	f.add("software", Terminal(ex.ServerHeader, 80))
	if t := ex.TLS; t != nil && t.Subject != "" && !t.NotAfter.IsZero() {
		f.add("certificate", Terminal(t.Subject, 80)+" until "+t.NotAfter.UTC().Format("2006-01-02"))
	}
	var timings []string
	for _, t := range ex.ServerTiming[:min(len(ex.ServerTiming), 8)] {
		timings = append(timings, nonEmpty(" ", Terminal(t.Name, 30), strings.TrimSuffix(t.Dur.String(), "–")))
	}
	f.add("Server-Timing", strings.Join(timings, ", "))
}

// serverText compares the requests of a connection. The second one matters
// where a server still writes its log of the first.
func serverText(s *httpcheck.Summary) string {
	var parts []string
	say := func(v millis.Value, at string) {
		if v.Known() {
			parts = append(parts, v.String()+" "+at)
		}
	}
	say(s.ColdServer, "for the first request of a connection")
	say(s.SecondServer, "for the second")
	say(s.WarmServer, "for later ones")
	if s.WarmServer == s.SecondServer && len(parts) > 1 { // no connection had three
		parts = parts[:len(parts)-1]
	}
	return strings.Join(parts, ", ")
}

// bodyText is the size of the body and how it came.
func bodyText(h *httpcheck.Result) string {
	text := ""
	switch {
	case h.Body.Class == "" || h.Body.Class == "none":
	case h.Body.Class == "clean" && h.Body.Text != "": // which tells the size
		text = h.Body.Class
	default:
		text = size(h.Summary.Bytes) + ", " + h.Body.Class
	}
	return nonEmpty(": ", text, h.Body.Text)
}

// connection adds what the kernel and the dialling tell of the way there.
func (f *factCollector) connection(ex *httpcheck.Exchange, rtt millis.Value) {
	var parts []string
	if rtt.Known() {
		parts = append(parts, "least round trip "+rtt.String())
	}
	if t := ex.TCP; t != nil {
		parts = append(parts, "MSS "+strconv.Itoa(t.SndMSS), count(t.Retrans, "segment")+" sent again")
		order := "none received out of order"
		if t.OutOfOrder > 0 { // a mark, not a count
			order = "some received out of order"
		}
		parts = append(parts, order+" (of the middle load)")
	}
	f.add("TCP", strings.Join(parts, ", "))
	if len(ex.Attempts) < 2 {
		return
	}
	var tried []string
	for _, a := range ex.Attempts[:min(len(ex.Attempts), 6)] {
		how := "not used"
		if a.Won {
			how = "won"
		} else if a.Error != "" {
			how = Terminal(a.Error, 40)
		}
		tried = append(tried, a.Addr+" "+how)
	}
	f.add("dialled", strings.Join(tried, ", "))
}

// sameLoad is how far apart two times may be and still read as one.
const sameLoad = time.Millisecond

// loadNote says why the time of a cold load at the top of a report is another
// than the total of the phases; "" if it is the same, or not known.
func loadNote(load millis.Value, second bool, h *httpcheck.Result) string {
	total, ok := h.Summary.ColdPhases.Total.Get()
	if !ok || !load.Known() || (load.Duration()-total).Abs() <= sameLoad {
		return ""
	}
	why := "it counts what strikes only some loads, which medians leave out"
	switch ex := mainExchange(h); {
	case ex != nil && ex.Truncated == "stream":
		why = "how long a stream was listened to is not in it"
	case second:
		why = "a second request on the connection is in it"
	}
	return fmt.Sprintf("The cold load of %s at the top is not this total: %s.", load, why)
}
