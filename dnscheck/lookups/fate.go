package lookups

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/miekg/dns"

	"github.com/whyslow/whyslow/dnscheck"
	"github.com/whyslow/whyslow/dnscheck/bulk"
)

// Fate is what this host's resolvers make of the lookups of one address.
type Fate struct {
	Chosen
	// Outcome is the rcode, NODATA for an answer without a name, or what
	// bulk.Outcome says.
	Outcome string
	Names   []string // PTR, escaped as in a zone file
	// Reverse is the PTR lookup, Forward that of A and AAAA of the first name
	// (Double); its Cold is zero where there is no name.
	Reverse, Forward Cost
	// Confirmed says that one of the name's addresses is this one (FCrDNS).
	Confirmed bool
	// Cached says that the first answer came from a cache already: what a miss
	// costs was not seen.
	Cached bool
}

// Cost is what a lookup takes the first time and when the answer is cached.
type Cost struct {
	// Measured is the round trip of the first answer; zero if none came.
	Measured time.Duration
	// Cold is what a program waits for the first answer, by the rules of
	// resolv.conf, Warm for one from the cache.
	Cold, Warm time.Duration
	// Keeps is how long the answer is cached. Failures are not: 0.
	Keeps time.Duration
}

// ProbeOptions say how Probe asks. Config is needed.
type ProbeOptions struct {
	// Config is the resolver configuration whose servers are asked and whose
	// waits are charged.
	Config *dnscheck.Config
	// Port of the servers. Zero means 53.
	Port uint16
	// Rate bounds the queries a second. Zero means 100, or no bound if all
	// servers are on this host's loopback; less than zero means no bound.
	Rate float64
	// Window is how many queries may be under way. Zero means 200.
	Window int
	// Double measures forward lookups too.
	Double bool
	// Dial opens the sockets. Nil means a plain net.Dialer.
	Dial func(ctx context.Context, network string, to netip.AddrPort) (net.Conn, error)
	// Progress is told how many of all queries have been answered; may be nil.
	Progress func(done, all int)
}

const (
	politeRate = 100
	perZone    = 8 // queries under way for one /16 off loopback
)

// bulkOptions are what the options mean to package bulk.
func (o *ProbeOptions) bulkOptions() bulk.Options {
	b := bulk.Options{Window: cmp.Or(o.Window, 200), Timeout: o.Config.ServerWait(0), Attempts: max(o.Config.Attempts, 1), Dial: o.Dial, Rate: max(o.Rate, 0)}
	local := true
	for _, s := range o.Config.Nameservers {
		b.Servers = append(b.Servers, netip.AddrPortFrom(s, cmp.Or(o.Port, 53)))
		local = local && s.IsLoopback()
	}
	if !local {
		b.PerZone = perZone
		if o.Rate == 0 {
			b.Rate = politeRate
		}
	}
	return b
}

// Probe measures the lookups of the addresses chosen: cold, then from the cache,
// then, for Double, those of their names. When ctx ends it returns what it has
// of those that were measured, and ctx's error.
func Probe(ctx context.Context, chosen []Chosen, o ProbeOptions) ([]Fate, error) {
	fates := make([]Fate, len(chosen))
	queries := make([]bulk.Query, len(chosen))
	for i, c := range chosen {
		fates[i].Chosen = c
		queries[i].Addr = c.Addr
	}
	p := prober{o: &o, bulk: o.bulkOptions(), all: len(chosen) * 2}
	if o.Double {
		p.all += len(chosen) * 2
	}
	if err := p.reverse(ctx, fates, queries); err != nil {
		return known(fates), err
	}
	if o.Double {
		if err := p.forward(ctx, fates); err != nil {
			return known(fates), err
		}
	}
	return known(fates), nil
}

// known are the fates that were measured.
func known(fates []Fate) []Fate {
	return slices.DeleteFunc(fates, func(f Fate) bool { return f.Outcome == "" })
}

type prober struct {
	o         *ProbeOptions
	bulk      bulk.Options
	done, all int
}

func (p *prober) run(ctx context.Context, queries []bulk.Query, take func(a *bulk.Answer)) error {
	_, err := bulk.Run(ctx, queries, p.bulk, func(a *bulk.Answer) {
		p.done++
		if p.o.Progress != nil && p.done%64 == 0 {
			p.o.Progress(p.done, p.all)
		}
		if a.Outcome != bulk.Unasked && (ctx.Err() == nil || a.Outcome == bulk.Answered) {
			take(a)
		}
	})
	if err != nil {
		return fmt.Errorf("lookups: %w", err)
	}
	return nil
}

func (p *prober) reverse(ctx context.Context, fates []Fate, queries []bulk.Query) error {
	err := p.run(ctx, queries, func(a *bulk.Answer) {
		f := &fates[a.Index]
		f.Outcome = outcome(a)
		f.Names = slices.Clone(a.Names)
		f.Reverse = p.cost(a)
	})
	if err != nil {
		return err
	}
	// Again, for what an answer from the cache costs; failures have none.
	var again []int
	var warm []bulk.Query
	for i := range fates {
		if fates[i].Reverse.Keeps > 0 {
			again, warm = append(again, i), append(warm, queries[i])
		}
	}
	p.all -= len(fates) - len(again)
	return p.run(ctx, warm, func(a *bulk.Answer) {
		f := &fates[again[a.Index]]
		f.Reverse.warm(a)
		f.Cached = alreadyCached(f.Reverse)
	})
}

// warm enters the second answer. A second one that took longer than the first
// came from no cache: then the first is the price of both.
func (c *Cost) warm(a *bulk.Answer) {
	if a.Outcome == bulk.Answered {
		c.Warm = min(a.Took, c.Cold)
	}
}

// alreadyCached reports whether a first answer was one from a cache: it came as
// quickly as the second, and may be kept for a time that no zone file says.
func alreadyCached(c Cost) bool {
	seconds := int(c.Keeps / time.Second)
	return seconds%30 != 0 && c.Measured < 2*c.Warm+time.Millisecond
}

// forward measures the lookups of the names that addresses have.
func (p *prober) forward(ctx context.Context, fates []Fate) error {
	var of []int
	var queries []bulk.Query
	for i := range fates {
		if len(fates[i].Names) > 0 {
			for _, t := range [...]uint16{dns.TypeA, dns.TypeAAAA} {
				of, queries = append(of, i), append(queries, bulk.Query{Name: fates[i].Names[0], Type: t})
			}
		}
	}
	p.all = p.done + 2*len(queries)
	err := p.run(ctx, queries, func(a *bulk.Answer) {
		f := &fates[of[a.Index]]
		f.Forward = longer(f.Forward, p.cost(a))
		f.Confirmed = f.Confirmed || slices.Contains(a.Addrs, f.Addr.Unmap())
	})
	if err != nil {
		return err
	}
	return p.run(ctx, queries, func(a *bulk.Answer) {
		f := &fates[of[a.Index]]
		if c := (Cost{Cold: f.Forward.Cold}); a.Outcome == bulk.Answered {
			c.warm(a)
			f.Forward.Warm = max(f.Forward.Warm, c.Warm)
		}
	})
}

// longer joins the lookups of A and AAAA, which go side by side: the later
// answer is waited for, and both must be cached.
func longer(a, b Cost) Cost {
	if a == (Cost{}) {
		return b
	}
	return Cost{Measured: max(a.Measured, b.Measured), Cold: max(a.Cold, b.Cold), Warm: max(a.Warm, b.Warm), Keeps: min(a.Keeps, b.Keeps)}
}

// cost is what a program waits for an answer (res_send.c): the round trip, and
// before it the whole wait for each server that is silent and for each attempt
// that was lost.
func (p *prober) cost(a *bulk.Answer) Cost {
	c := Cost{Keeps: a.TTL}
	conf := p.o.Config
	if a.Outcome == bulk.Answered {
		c.Measured, c.Cold = a.Took, a.Took
		for i := range conf.Nameservers {
			if i < a.Server && a.Silent&(1<<i) != 0 {
				c.Cold += conf.ServerWait(i)
			}
		}
		c.Cold += time.Duration(a.Lost) * conf.ServerWait(a.Server)
	} else {
		for i := range conf.Nameservers {
			if a.Silent&(1<<i) != 0 {
				c.Cold += time.Duration(max(conf.Attempts, 1)) * conf.ServerWait(i)
			}
		}
	}
	c.Warm = c.Cold
	if a.Outcome != bulk.Answered || a.Rcode != dns.RcodeSuccess && a.Rcode != dns.RcodeNameError || !a.Known {
		c.Keeps = 0
	}
	return c
}

func outcome(a *bulk.Answer) string {
	switch {
	case a.Outcome != bulk.Answered:
		return a.Outcome.String()
	case a.Rcode == dns.RcodeSuccess && len(a.Names) == 0:
		return "NODATA"
	}
	if s, ok := dns.RcodeToString[a.Rcode]; ok {
		return s
	}
	return fmt.Sprintf("RCODE%d", a.Rcode)
}
