package delegation

import (
	"context"
	"net/netip"
	"slices"
	"time"
)

// hedge is how long one server of a zone is waited for before the next is
// asked beside it. A resolver waits longer (0.4 to 1.5 s): the walk need not
// feel what it is looking for.
const hedge = 250 * time.Millisecond

// first asks the servers of z in turn, the next one soon beside a silent one,
// until one reply is useful. Servers that drop or refuse EDNS are asked again
// without it if nothing else helps.
func (w *Walker) first(ctx context.Context, z *zone, name string, qtype uint16) step {
	all := slices.DeleteFunc(z.addrs(), func(a netip.Addr) bool { return w.k.noRoute(a.Is6()) })
	// Those that were silent twice have been waited for enough.
	awake := slices.DeleteFunc(slices.Clone(all), func(a netip.Addr) bool { return w.k.habit(a).silent > 1 })
	slices.SortStableFunc(awake, func(a, b netip.Addr) int { return w.k.habit(a).silent - w.k.habit(b).silent })
	if len(awake) == 0 && len(all) > 0 {
		note := "no server of " + bare(z.name) + " answers: " + all[0].String() + " does not"
		return step{zone: z, outcome: w.failure(ctx, ""), note: note}
	}
	all = awake
	why := ""
	for _, plain := range []bool{false, true} {
		s, reason, retry, ok := w.race(ctx, z, all, question{name: name, qtype: qtype, plain: plain})
		if ok {
			return s
		}
		all = retry[:min(len(retry), 4)]
		if why == "" {
			why = reason
		}
	}
	note := "no server of " + bare(z.name) + " answers for " + bare(name)
	if why != "" {
		note += ": " + why
	}
	return step{zone: z, outcome: w.failure(ctx, ""), note: note}
}

// race is one round of first. Without a useful reply it says why, and which
// servers to ask again without EDNS.
func (w *Walker) race(ctx context.Context, z *zone, servers []netip.Addr, q question) (out step, why string, retry []netip.Addr, ok bool) {
	results := make(chan step, len(servers))
	started, pending := 0, 0
	start := func() {
		q := q
		q.server = servers[started]
		q.plain = q.plain || w.k.deaf(q.server)
		started, pending = started+1, pending+1
		w.running.Go(func() {
			r := w.k.whole(ctx, q)
			s := step{zone: z, server: q.server, msg: r.msg, note: string(r.outcome), plain: q.plain}
			if r.msg != nil {
				s.reply = classify(z.name, q.name, q.qtype, r.msg)
				s.note = s.reply.why
				if r.truncated && s.reply.kind != referral {
					s.reply, s.note = reply{}, "its answer is cut and does not come over TCP"
				}
			}
			results <- s
		})
	}
	timer := time.NewTicker(hedge)
	defer timer.Stop()
	for started < len(servers) || pending > 0 {
		if pending == 0 {
			start()
		}
		select {
		case s := <-results:
			pending--
			if s.reply.useful() {
				return s, "", nil, true
			}
			if why == "" && s.note != "" {
				why = s.server.String() + " " + outcomeWords(s.note)
			}
			if !s.plain && (s.msg == nil || s.reply.kind == noEDNS) {
				retry = append(retry, s.server)
			}
			if started < len(servers) {
				start()
			}
		case <-timer.C:
			if started < len(servers) {
				start()
			}
		case <-ctx.Done():
			return step{}, "", nil, false
		}
	}
	return step{}, why, retry, false
}

// outcomeWords is a dnscheck.Outcome as a clause; other text stays.
func outcomeWords(s string) string {
	switch s {
	case "timeout":
		return "does not answer"
	case "refused":
		return "has its port closed"
	case "unreachable":
		return "cannot be reached"
	case "malformed", "mismatch":
		return "answers what cannot be read"
	case "closed":
		return "hangs up"
	case "interrupted", string(unasked):
		return "was not asked"
	}
	return s
}
