package delegation

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/miekg/dns"

	"github.com/whyslow/whyslow/dnscheck"
)

// Options configure a Walker. The zero Options walk the public tree.
type Options struct {
	// Roots are the addresses of root servers, to begin with. Empty means
	// IANA's.
	Roots []netip.Addr
	// Anchors are the root's trusted DS records. Nil means IANA's where Roots
	// is empty, and none otherwise: signatures are then checked below the
	// root, but nothing vouches for the whole.
	Anchors []*dns.DS
	// Port is where all servers listen. Zero means 53.
	Port uint16
	// Family limits the servers asked to one address family.
	Family dnscheck.Family

	// Exchanger carries the queries. Nil means a dnscheck.Host with the two
	// fields below.
	Exchanger dnscheck.Exchanger
	Source    netip.Addr
	Interface string

	// Wait is how long one query waits. Zero means 1.5 s, at most 10 s.
	Wait time.Duration
	// Deadline bounds one walk. Zero means 10 s, at most 60 s.
	Deadline time.Duration
	// MaxZones bounds the zones that a Walker gets to know, those of name
	// servers' names included; MaxQueries its queries. Zero means 40 and 200;
	// at most 200 and 5000.
	MaxZones, MaxQueries int
	// Samples is how often each server of a last zone is asked over UDP, for
	// its times. Zero means 3; at most 20.
	Samples int
	// Shallow asks only the servers of last zones, and of those the walk
	// fails at: for many walks that share their upper zones.
	Shallow bool
	// Now is the time by which signatures are judged. The zero time means the
	// time of the walk.
	Now time.Time
}

// maxServers bounds the server names of a zone, maxAddrs the addresses of one
// name. The largest zones there are have 13.
const (
	maxServers = 13
	maxAddrs   = 4
	// maxAliases bounds the links followed, maxDepth the walks for name
	// servers' addresses within each other.
	maxAliases = 12
	maxDepth   = 4
	// inFlight bounds the queries under way at once.
	inFlight = 48
)

// filled checks the options and gives the zero values their meaning.
func (o Options) filled() (Options, error) {
	if len(o.Roots) == 0 {
		o.Roots = publicRoots()
		if o.Anchors == nil {
			o.Anchors = PublicAnchors()
		}
	}
	for _, a := range o.Roots {
		if !a.IsValid() {
			return o, errors.New("delegation: a root server has no address")
		}
	}
	if o.Exchanger == nil {
		o.Exchanger = &dnscheck.Host{Source: o.Source, Interface: o.Interface}
	}
	if o.Port == 0 {
		o.Port = 53
	}
	for _, b := range []struct {
		name          string
		v             *time.Duration
		normal, limit time.Duration
	}{{"Wait", &o.Wait, 1500 * time.Millisecond, 10 * time.Second}, {"Deadline", &o.Deadline, 10 * time.Second, time.Minute}} {
		if *b.v == 0 {
			*b.v = b.normal
		}
		if *b.v < 0 || *b.v > b.limit {
			return o, fmt.Errorf("delegation: %s of %v is not within 0 and %v", b.name, *b.v, b.limit)
		}
	}
	for _, b := range []struct {
		name          string
		v             *int
		normal, limit int
	}{{"MaxZones", &o.MaxZones, 40, 200}, {"MaxQueries", &o.MaxQueries, 200, 5000}, {"Samples", &o.Samples, 3, 20}} {
		if *b.v == 0 {
			*b.v = b.normal
		}
		if *b.v < 0 || *b.v > b.limit {
			return o, fmt.Errorf("delegation: %s of %d is not within 0 and %d", b.name, *b.v, b.limit)
		}
	}
	return o, nil
}

// publicRoots are IANA's root servers (named.root of 2024-04-18).
func publicRoots() []netip.Addr {
	var out []netip.Addr
	for _, s := range []string{
		"198.41.0.4", "170.247.170.2", "192.33.4.12", "199.7.91.13", "192.203.230.10", "192.5.5.241", "192.112.36.4",
		"198.97.190.53", "192.36.148.17", "192.58.128.30", "193.0.14.129", "199.7.83.42", "202.12.27.33",
		"2001:503:ba3e::2:30", "2801:1b8:10::b", "2001:500:2::c", "2001:500:2d::d", "2001:500:a8::e", "2001:500:2f::f",
		"2001:500:12::d0d", "2001:500:1::53", "2001:7fe::53", "2001:503:c27::2:30", "2001:7fd::1", "2001:500:9f::42", "2001:dc3::35",
	} {
		out = append(out, netip.MustParseAddr(s))
	}
	return out
}
