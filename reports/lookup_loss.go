package reports

import (
	"fmt"
	"time"

	"github.com/whyslow/whyslow/dnscheck"
)

// lookupLoss is what queries lost on the way to the first resolver cost a
// lookup on average. The lookup that was measured may have been spared by luck;
// each lost query costs the stub its whole timeout.
type lookupLoss struct {
	lost, sent int
	cost       time.Duration
}

// lookupLoss is empty where too few were lost to tell that from chance, and
// where the path itself loses, which is charged once.
func (v *view) lookupLoss() lookupLoss {
	d := v.r.DNS
	if d == nil || d.Stub == nil || d.Stub.Source == "hosts" || len(d.Config.Nameservers) == 0 || v.pathLoses() {
		return lookupLoss{}
	}
	var l lookupLoss
	first := d.Config.Nameservers[0]
	for _, rows := range [][]dnscheck.Server{d.Servers, d.Controls} {
		for _, row := range rows {
			// A kind of question that is never answered is no loss.
			if row.Addr == first && row.Transport == "udp" && row.Answered > 0 {
				l.sent += row.Sent
				l.lost += row.Sent - row.Answered
			}
		}
	}
	timeout, known := d.Config.Timeout.Get()
	if l.lost < 3 || !known {
		return lookupLoss{}
	}
	arrives := float64(l.sent-l.lost) / float64(l.sent)
	l.cost = time.Duration((1 - arrives*arrives) * float64(timeout)) // A and AAAA, side by side
	return l
}

// raise makes a finding of lost queries cost what it costs on average, if that
// is more than it cost the lookup that was measured.
func (l lookupLoss) raise(c *cause) {
	if l.cost <= c.extra {
		return
	}
	c.extra = l.cost
	c.phrase = fmt.Sprintf("%d of %d queries to the resolver %s are lost, which costs a lookup %s on average", l.lost, l.sent, c.where, ms(l.cost))
	c.evidence = []Evidence{fact("dns-resolver-loss", "queries to the first resolver are lost, each for its whole timeout",
		fmt.Sprintf("%d of %d", l.lost, l.sent), "counts from 3 lost")}
}
