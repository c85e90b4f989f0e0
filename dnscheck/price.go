package dnscheck

import (
	"slices"
	"time"

	"github.com/miekg/dns"
)

// Fate is what one nameserver does with a question.
type Fate struct {
	// Outcome is empty where it answers, Refused where its port is closed and
	// Timeout where it is silent.
	Outcome Outcome
	// After is how long an answer takes, Rcode what it says. Only answers
	// have them.
	After time.Duration
	Rcode int
}

// Price is what a program waits for one question, and what it gets.
type Price struct {
	// Blocked is the time until the stub returns.
	Blocked time.Duration
	// Rcode is the outcome as in Stub.Rcode.
	Rcode string
	// Queries is how many the servers are sent.
	Queries int
}

// Price says without asking anybody what one question of one type costs a
// stub of model m, such as the PTR lookup of a web server: fates are those of
// the nameservers, in their order, first the index of the one that "options
// rotate" begins with. Such a question never goes through the search list.
func (c *Config) Price(m Model, fates []Fate, first int) Price {
	e := c.As(m)
	n := min(len(fates), len(e.Nameservers))
	if n == 0 {
		return Price{Rcode: string(Timeout)}
	}
	if !e.Rotate {
		first = 0
	}
	if m == Musl {
		return e.priceParallel(fates[:n])
	}
	return e.priceInTurn(m, fates[:n], first)
}

// priceInTurn is glibc's and Go's way: server after server, round after round.
func (c *Config) priceInTurn(m Model, fates []Fate, first int) Price {
	p := Price{Rcode: string(Timeout)}
	rejected, heard := "", false
	asked := make([]time.Duration, len(fates)) // when first, glibc's late answers
	attempts := c.Attempts
	if c.UseVC && m != Go {
		attempts = min(attempts, 1) // glibc tries each server once over TCP
	}
	for try := range attempts {
		for shift := range fates {
			ns := (shift + first) % len(fates)
			f := fates[ns]
			p.Queries++
			if f.Outcome == Refused {
				if m == Go {
					rejected = "" // it tells the last error
				}
				continue
			}
			if try == 0 {
				asked[ns] = p.Blocked
			}
			wait, after := c.serverWait(m, ns), f.After
			if m != Go && !c.UseVC {
				// The socket is the same, so that the answer to the first
				// question may come when it is asked again.
				after = max(0, asked[ns]+f.After-p.Blocked)
			}
			heard = true
			if f.Outcome != "" || after > wait {
				p.Blocked += wait
				if m == Go {
					rejected = ""
				}
				continue
			}
			p.Blocked += after
			if turns(m, f.Rcode) && (m == Go || !c.UseVC) {
				rejected = rcodeString(f.Rcode)
				continue
			}
			p.Rcode = rcodeString(f.Rcode)
			return p
		}
	}
	switch {
	case rejected != "":
		p.Rcode = rejected
	case !heard && p.Queries > 0:
		p.Rcode = string(Refused)
	}
	return p
}

// serverWait is the longest wait for one answer.
func (c *Config) serverWait(m Model, ns int) time.Duration {
	switch {
	case m == Go:
		return c.Timeout
	case c.UseVC:
		return tcpWait
	default:
		return c.ServerWait(ns)
	}
}

// turns reports whether a stub turns to the next server over an answer.
func turns(m Model, rcode int) bool {
	if m == Go {
		return rcode != dns.RcodeSuccess && rcode != dns.RcodeNameError
	}
	return rcode == dns.RcodeServerFailure || rcode == dns.RcodeNotImplemented || rcode == dns.RcodeRefused
}

// arrival is an answer on its way.
type arrival struct {
	at time.Duration
	ns int
}

// priceParallel is musl's way: everybody at once, the first good answer counts.
func (c *Config) priceParallel(fates []Fate) Price {
	p := Price{Rcode: string(Timeout)}
	if c.Timeout <= 0 {
		return p
	}
	var coming []arrival
	ask := func(now time.Duration, ns int) {
		p.Queries++
		if f := fates[ns]; f.Outcome == "" {
			coming = append(coming, arrival{now + f.After, ns})
		}
	}
	waves := max(c.Attempts, 1)
	for wave := range waves {
		begins, ends := time.Duration(wave)*muslInterval(c), c.Timeout
		if wave+1 < waves {
			ends = begins + muslInterval(c)
		}
		for ns := range fates {
			ask(begins, ns)
		}
		for retries := 2; len(coming) > 0; {
			slices.SortStableFunc(coming, func(a, b arrival) int { return int(a.at - b.at) })
			a := coming[0]
			if a.at > ends {
				break
			}
			coming = coming[1:]
			switch rc := fates[a.ns].Rcode; {
			case rc == dns.RcodeSuccess || rc == dns.RcodeNameError:
				p.Blocked, p.Rcode = a.at, rcodeString(rc)
				return p
			case rc == dns.RcodeServerFailure && retries > 0:
				retries--
				ask(a.at, a.ns)
				fallthrough
			default:
				p.Rcode = rcodeString(rc)
			}
		}
	}
	p.Blocked = c.Timeout
	return p
}
