package dnscheck

import (
	"net/netip"
	"slices"
	"time"

	"github.com/whyslow/whyslow/internal/millis"
)

// DefaultResolvConf is the file that glibc reads.
const DefaultResolvConf = "/etc/resolv.conf"

// The limits and defaults of glibc 2.36, resolv/resolv.h and
// resolv/bits/types/res_state.h.
const (
	maxNameservers  = 3                // MAXNS
	defaultTimeout  = 5 * time.Second  // RES_TIMEOUT
	maxTimeout      = 30 * time.Second // RES_MAXRETRANS
	defaultAttempts = 2                // RES_DFLRETRY
	maxAttempts     = 5                // RES_MAXRETRY
	defaultNdots    = 1
	maxNdots        = 15 // RES_MAXNDOTS
)

// Config is a resolver configuration as glibc 2.36 would have it in force
// after reading resolv.conf: defaults filled in, values capped. The zero
// Config is not useful; start from DefaultConfig.
type Config struct {
	File        string       // "" if it came from no file
	Nameservers []netip.Addr // at most 3
	// Search is the search list, without ".".
	Search []string
	// SearchRoot says that the list held ".", as systemd-resolved writes it:
	// glibc then asks for a name that failed once more, exactly as it is.
	SearchRoot bool
	// Timeout is the wait for the first server, whole seconds. A Config that
	// asks for less than 1 s gets 1 s, as in glibc.
	Timeout time.Duration
	// Attempts is the number of rounds over the servers. 0 asks nobody.
	Attempts int
	// Ndots is the number of dots from which a name is first tried as it is.
	Ndots int

	Rotate, SingleRequest, SingleRequestReopen bool
	UseVC, EDNS0, TrustAD, NoAAAA, NoTLDQuery  bool

	// Options are the option words as written.
	Options []string

	// NameserverLines, SearchLine and OptionsLine are where the file said so,
	// counted from 1; 0 or nil for defaults.
	NameserverLines         []int
	SearchLine, OptionsLine int

	// Warnings name what glibc ignores, cuts off or caps, by line.
	Warnings []string
}

// DefaultConfig is what glibc uses without a resolv.conf.
func DefaultConfig() *Config {
	return &Config{
		Nameservers: []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})},
		Timeout:     defaultTimeout,
		Attempts:    defaultAttempts,
		Ndots:       defaultNdots,
	}
}

// View returns what a Result shows of the configuration, the servers at port.
func (c *Config) View(port uint16) ConfigView {
	v := ConfigView{
		File:            c.File,
		Nameservers:     []string{},
		Search:          slices.Clone(c.Search),
		Timeout:         millis.Of(c.Timeout),
		Attempts:        c.Attempts,
		Ndots:           c.Ndots,
		Options:         slices.Clone(c.Options),
		NameserverLines: slices.Clone(c.NameserverLines),
		SearchLine:      c.SearchLine,
		OptionsLine:     c.OptionsLine,
	}
	for _, a := range c.Nameservers {
		v.Nameservers = append(v.Nameservers, netip.AddrPortFrom(a, port).String())
	}
	return v
}

// ServerWait is how long glibc waits for server ns (its index in resolv.conf,
// whatever the order of asking): res_send.c, send_dg, "seconds = retrans <<
// ns; if (ns > 0) seconds /= nscount", at least 1. The shift is by server and
// not by round, so that three dead servers cost 5+3+6 s a round.
func (c *Config) ServerWait(ns int) time.Duration {
	seconds := int(c.Timeout/time.Second) << ns
	if ns > 0 {
		seconds /= len(c.Nameservers)
	}
	return time.Duration(max(seconds, 1)) * time.Second
}
