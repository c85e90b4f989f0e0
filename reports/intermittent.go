package reports

import (
	"fmt"
	"time"
)

// A request is called odd when the server took three times as long for it as
// for its like, and burst more. Scripts that vary do not vary so much.
const (
	oddFactor = 3
	oddBurst  = 200 * time.Millisecond
)

// oddRequests counts the requests that the server took far longer for than for
// others at the same place on their connection, and what they cost a request
// on average. The very first request of all is left out: it may have filled a
// cache. Where packets are lost only requests count during which none was seen
// to be, and that waited longer than the few that go unseen explain: a lost
// answer that nothing follows, sent again three times.
func (v *view) oddRequests() (odd, all int, mean time.Duration) {
	times, burst := v.server, oddBurst
	if v.pathLoses() || v.segmentsLost() {
		times, burst = v.unhurt, oddBurst+3*tailTimeout+2*v.rtt
	}
	var sum time.Duration
	for place := 1; place <= 3; place++ {
		group := series(times[place])
		if place == 1 && len(group) > 0 {
			group = group[1:]
		}
		for n, s := range times {
			if place == 3 && n > 3 {
				group = append(group[:len(group):len(group)], s...)
			}
		}
		least := group.structural()
		if second := series(times[2]); place == 3 && len(second) > 0 {
			// Backends that take turns may put the slow one at one place always.
			least = min(least, second.structural())
		}
		for _, d := range group {
			all++
			if d > oddFactor*least+burst {
				odd++
				sum += d - least
			}
		}
	}
	if all > 0 {
		mean = sum / time.Duration(all)
	}
	return odd, all, mean
}

// intermittent is a server that is quick for most requests and very slow for
// some.
func (v *view) intermittent() (cause, bool) {
	odd, all, mean := v.oddRequests()
	if odd < 2 || mean < minServerCost {
		return cause{}, false
	}
	c := cause{layer: Server, component: "intermittent", where: v.where(), extra: mean, p: 0.72,
		phrase: fmt.Sprintf("the server takes far longer over %d of %d requests than over the others", odd, all),
		evidence: []Evidence{fact("odd-requests", "some requests wait for the server, others like them do not, and no packet was lost meanwhile",
			fmt.Sprintf("%d of %d, %s on average over all", odd, all, ms(mean)), "counts from 2, each three times as slow as the rest")},
		next: []string{"on the server: log the time of each request ($request_time, %D) and compare what the slow ones have in common; count its workers and backends"}}
	d := v.destinationSample()
	switch {
	case v.pathLoses(), v.segmentsLost():
		c.p = 0.65
	case odd >= 3 && d != nil && d.Sent >= 50 && d.Received == d.Sent:
		c.p = 0.82
	}
	return c, true
}
