package trace

// What was done to the probes on the way shows in what routers quote of them:
// each quotes the probe as it came there.

// quotes calls f with each hop's quote in the order of the path until f
// reports that it is done. Where several addresses answered, the first that
// shows something stands for the hop.
func quotes(hops []Hop, f func(Place, *Quote) (done bool)) {
	for _, h := range hops {
		for _, r := range h.Replies {
			if r.Quote == nil {
				continue
			}
			if f(Place{TTL: h.TTL, Addr: r.Addr}, r.Quote) {
				return
			}
			break
		}
	}
}

// translation is the first hop that saw the probes translated, if one before
// it saw them as they were sent. Without that witness nothing is claimed: the
// kernel of this host leaves checksums unfinished on virtual links, and what
// quotes them there would look like a NAT.
func translation(hops []Hop) *Place {
	var at *Place
	witness := false
	quotes(hops, func(p Place, q *Quote) bool {
		switch {
		case q.Translated == nil:
		case !*q.Translated:
			witness = true
		case witness:
			at = &p
		}
		return at != nil
	})
	return at
}

// clamp is the first hop that quotes a lower MSS than a hop before it.
func clamp(hops []Hop) *MSSClamp {
	var at *MSSClamp
	sent := 0
	quotes(hops, func(p Place, q *Quote) bool {
		switch {
		case q.MSS == nil:
		case sent > 0 && *q.MSS < sent:
			at = &MSSClamp{Place: p, From: sent, To: *q.MSS}
		default:
			sent = *q.MSS
		}
		return at != nil
	})
	return at
}

// tosChange is the first hop that quotes other DSCP or ECN bits than were sent.
func tosChange(hops []Hop) *TOSChange {
	var at *TOSChange
	quotes(hops, func(p Place, q *Quote) bool {
		if q.TOS != nil && *q.TOS != 0 {
			at = &TOSChange{Place: p, From: 0, To: *q.TOS}
		}
		return at != nil
	})
	return at
}
