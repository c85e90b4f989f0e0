package main

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/whyslow/whyslow/trace"
)

// path is what a contender printed.
type path struct{ hops []hop }

// hop is one TTL of it.
type hop struct {
	ttl   int
	addrs []netip.Addr    // without repeats
	rtts  []time.Duration // as printed, in order
}

// hop returns the hop of a TTL to write to.
func (p *path) hop(ttl int) *hop {
	for i := range p.hops {
		if p.hops[i].ttl == ttl {
			return &p.hops[i]
		}
	}
	p.hops = append(p.hops, hop{ttl: ttl})
	return &p.hops[len(p.hops)-1]
}

func (h *hop) add(a netip.Addr) {
	if !slices.Contains(h.addrs, a) {
		h.addrs = append(h.addrs, a)
	}
}

// at returns the addresses printed for a TTL.
func (p path) at(ttl int) []netip.Addr {
	for _, h := range p.hops {
		if h.ttl == ttl {
			return h.addrs
		}
	}
	return nil
}

// find returns the TTLs at which an address was printed.
func (p path) find(a netip.Addr) []int {
	var at []int
	for _, h := range p.hops {
		if slices.Contains(h.addrs, a) {
			at = append(at, h.ttl)
		}
	}
	return at
}

// last is the largest TTL at which anybody answered.
func (p path) last() int {
	n := 0
	for _, h := range p.hops {
		if len(h.addrs) > 0 {
			n = max(n, h.ttl)
		}
	}
	return n
}

// parser reads what a program printed.
type parser func(stdout string) (path, error)

// numbered is a line that begins with a TTL: traceroute's, tracepath's,
// scamper's, tcptraceroute's, mtr's.
var numbered = regexp.MustCompile(`^\s*(\d+)(?::|\.\|--|\s)\s*(.*)$`)

// parseLines reads every form whose lines are a TTL and then addresses and
// times, which is all of the peers' for people.
func parseLines(stdout string) (path, error) {
	var p path
	for line := range strings.Lines(stdout) {
		m := numbered.FindStringSubmatch(strings.TrimRight(line, "\n"))
		if m == nil {
			continue
		}
		ttl, err := strconv.Atoi(m[1])
		if err != nil {
			return p, err
		}
		h := p.hop(ttl)
		fields := strings.Fields(m[2])
		for i, f := range fields {
			if a, err := netip.ParseAddr(strings.Trim(f, "()")); err == nil {
				h.add(a)
				continue
			}
			number, glued := strings.CutSuffix(f, "ms")
			if !glued && (i+1 == len(fields) || fields[i+1] != "ms") {
				continue
			}
			if v, err := strconv.ParseFloat(number, 64); err == nil {
				h.rtts = append(h.rtts, time.Duration(v*float64(time.Millisecond)))
			}
		}
	}
	if len(p.hops) == 0 {
		return p, fmt.Errorf("no hops in %.200q", stdout)
	}
	return p, nil
}

// parseMTRReport reads `mtr --report`, whose lines hold statistics in place of
// times.
func parseMTRReport(stdout string) (path, error) {
	var p path
	for line := range strings.Lines(stdout) {
		ttl, rest, ok := strings.Cut(strings.TrimSpace(line), ".|--")
		n, err := strconv.Atoi(ttl)
		if !ok || err != nil {
			continue
		}
		h := p.hop(n)
		if f := strings.Fields(rest); len(f) > 0 {
			if a, err := netip.ParseAddr(f[0]); err == nil {
				h.add(a)
			}
		}
	}
	if len(p.hops) == 0 {
		return p, fmt.Errorf("no hops in %.200q", stdout)
	}
	return p, nil
}

// parseMTRRaw reads `mtr --raw`, which tells every round trip in microseconds:
// "h POSITION ADDRESS" and "p POSITION MICROSECONDS SEQUENCE", positions from 0.
func parseMTRRaw(stdout string) (path, error) {
	var p path
	for line := range strings.Lines(stdout) {
		f := strings.Fields(line)
		if len(f) < 3 {
			continue
		}
		n, err := strconv.Atoi(f[1])
		if err != nil {
			continue
		}
		switch f[0] {
		case "h":
			if a, err := netip.ParseAddr(f[2]); err == nil {
				p.hop(n + 1).add(a)
			}
		case "p":
			if us, err := strconv.Atoi(f[2]); err == nil {
				h := p.hop(n + 1)
				h.rtts = append(h.rtts, time.Duration(us)*time.Microsecond)
			}
		}
	}
	if len(p.hops) == 0 {
		return p, fmt.Errorf("no hops in %.200q", stdout)
	}
	return p, nil
}

// parseOurs reads the table of `whyslow trace`: from the line of its heads to
// the first that begins with neither a TTL nor a further address of one.
func parseOurs(stdout string) (path, error) {
	var p path
	table, ttl := false, 0
	for line := range strings.Lines(stdout) {
		f := strings.Fields(line)
		if !table {
			table = len(f) > 1 && f[0] == "hop" && f[1] == "address"
			continue
		}
		if len(f) == 0 {
			break
		}
		if n, err := strconv.Atoi(f[0]); err == nil && len(f) > 1 {
			ttl, f = n, f[1:]
			p.hop(ttl)
		}
		a, err := netip.ParseAddr(f[0])
		if err != nil && f[0] != "*" {
			break
		}
		if err == nil {
			p.hop(ttl).add(a)
		}
	}
	if len(p.hops) == 0 {
		return p, fmt.Errorf("no hops in %.200q", stdout)
	}
	return p, nil
}

// parseOurJSON reads `whyslow trace --json`.
func parseOurJSON(stdout string) (path, error) {
	var res trace.Result
	if err := json.Unmarshal([]byte(stdout), &res); err != nil {
		return path{}, fmt.Errorf("reading our JSON: %w", err)
	}
	return pathOf(&res), nil
}

// pathOf is the path of a trace.
func pathOf(res *trace.Result) path {
	var p path
	for _, h := range res.Hops {
		to := p.hop(h.TTL)
		for _, r := range h.Replies {
			to.add(r.Addr)
			for _, v := range r.RTTs {
				to.rtts = append(to.rtts, v.Duration())
			}
		}
	}
	return p
}
