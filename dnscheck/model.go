package dnscheck

import (
	"context"
	"debug/elf"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Model is the stub resolver whose rules are followed. They read the same
// resolv.conf and wait very differently. The zero Model is Glibc.
type Model string

// The models. Musl is 1.2.3, Debian's; from 1.2.4 it asks again over TCP where
// an answer is truncated. Go is the pure Go resolver of Go 1.26, which every
// program built with CGO_ENABLED=0 has.
const (
	Glibc Model = "glibc"
	Musl  Model = "musl"
	Go    Model = "go"
)

// Models lists them.
func Models() []Model { return []Model{Glibc, Musl, Go} }

// HostModel is the model of the programs of this host: musl where the shell's
// dynamic loader is musl's (both may be installed, so that the loader's
// existence proves nothing), otherwise glibc.
func HostModel() Model { return modelOf("/bin/sh") }

func modelOf(program string) Model {
	f, err := elf.Open(program)
	if err != nil {
		return Glibc
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type != elf.PT_INTERP {
			continue
		}
		b, err := io.ReadAll(io.LimitReader(p.Open(), 4096))
		if err == nil && strings.Contains(string(b), "/ld-musl-") {
			return Musl
		}
	}
	return Glibc
}

func (m Model) check() (Model, error) {
	if m == "" {
		return Glibc, nil
	}
	if !slices.Contains(Models(), m) {
		return "", fmt.Errorf("dnscheck: no stub model %s: want glibc, musl or go", quote(string(m)))
	}
	return m, nil
}

// goEDNSSize is what Go's resolver advertises, always (net/dnsclient_unix.go,
// maxDNSPacketSize).
const goEDNSSize = 1232

// limits of the numbers in an options line. Zero upper limits mean none.
type limits struct{ timeoutMin, timeoutMax, attemptsMin, attemptsMax, ndotsMax int }

var (
	muslLimits = limits{timeoutMax: 60, attemptsMax: 10, ndotsMax: 15}
	goLimits   = limits{timeoutMin: 1, attemptsMin: 1, ndotsMax: 15}
)

// As returns c as a stub of model m has it in force. A Config holds what glibc
// makes of the file; the others cap other numbers and know other options, and
// take them from the words of c.Options. Where c has no such words its numbers
// stand.
func (c *Config) As(m Model) *Config {
	if m == Glibc || m == "" {
		return c
	}
	e := *c
	e.SearchRoot = false // "search ." means nothing to either
	e.SingleRequestReopen, e.NoAAAA, e.NoTLDQuery = false, false, false
	if m == Musl {
		e.Rotate, e.SingleRequest, e.UseVC, e.EDNS0, e.TrustAD = false, false, false, false, false
		// The first of several counts: musl searches the line for the word.
		for _, w := range slices.Backward(c.Options) {
			e.number(w, muslLimits)
		}
		return &e
	}
	// Go asks one after the other for both spellings of the option.
	e.SingleRequest = c.SingleRequest || c.SingleRequestReopen
	e.EDNS0 = true
	for _, w := range c.Options {
		e.number(w, goLimits)
		if w == "usevc" || w == "tcp" {
			e.UseVC = true
		}
	}
	return &e
}

func (c *Config) number(w string, l limits) {
	bound := func(v string, low, high int) int {
		n := max(atoi(v), low)
		if high > 0 {
			n = min(n, high)
		}
		return n
	}
	switch key, v, _ := strings.Cut(w, ":"); key {
	case "timeout":
		c.Timeout = time.Duration(bound(v, l.timeoutMin, l.timeoutMax)) * time.Second
	case "attempts":
		c.Attempts = bound(v, l.attemptsMin, l.attemptsMax)
	case "ndots":
		c.Ndots = bound(v, 0, l.ndotsMax)
	}
}

// search looks name up with the search list, as the model does.
func (r *stubRun) search(ctx context.Context, name string, types []uint16) queryResult {
	switch r.model {
	case Musl:
		return r.muslSearch(ctx, name, types)
	case Go:
		return r.goSearch(ctx, name, types)
	default:
		return r.glibcSearch(ctx, name, types)
	}
}

// query asks for name as it is.
func (r *stubRun) query(ctx context.Context, name string, types []uint16) queryResult {
	switch r.model {
	case Musl:
		return r.muslQuery(ctx, name, types)
	case Go:
		return r.goQuery(ctx, name, types)
	default:
		return r.glibcQuery(ctx, name, types)
	}
}

// ednsSize is what a query advertises, 0 for no EDNS.
func (r *stubRun) ednsSize() uint16 {
	switch {
	case !r.cfg.EDNS0:
		return 0
	case r.model == Go:
		return goEDNSSize
	default:
		return edns0Size
	}
}
