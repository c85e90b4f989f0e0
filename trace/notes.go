package trace

import (
	"fmt"
	"net/netip"
)

// The notes N1 to N5 tell what was done to the probes or to the path. Unlike
// the rules they blame nobody.

// changed is N1: the route is not what it was. The hops are those of the
// last epoch, so what a change lost is no loss of theirs (mtr#361).
func (r *reader) changed() []Sentence {
	n := len(r.res.Epochs)
	if n < 2 {
		return nil
	}
	was, is := r.res.Epochs[n-2], r.res.Epochs[n-1]
	times := "once"
	if n > 2 {
		times = fmt.Sprintf("%d times, the last time", n-1)
	}
	what := fmt.Sprintf("the route changed %s at %s UTC, %s: hops and losses are counted since then",
		times, is.Started.UTC().Format("15:04:05.0"), difference(was.Hops, is.Hops))
	if was.Rounds+is.Rounds < keptRounds {
		what += "; so few rounds do not rule out that packets of one flow take both ways"
	}
	return []Sentence{{Rule: "N1", Text: what}}
}

// difference says where two routes part.
func difference(was, is []netip.Addr) string {
	at := 0
	for at < min(len(was), len(is)) && (was[at] == is[at] || !was[at].IsValid() || !is[at].IsValid()) {
		at++
	}
	what := fmt.Sprintf("from hop %d on", at+1)
	if at < min(len(was), len(is)) {
		what = fmt.Sprintf("from hop %d on (%v before, %v since)", at+1, was[at], is[at])
	}
	if len(was) != len(is) {
		what += fmt.Sprintf(", and is %d hops long instead of %d", len(is), len(was))
	}
	return what
}
