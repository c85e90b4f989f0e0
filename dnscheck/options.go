package dnscheck

import (
	"net/netip"
	"time"
)

// Family says which addresses are wanted, as getaddrinfo's ai_family does.
type Family int

// The families. The zero Family asks for both.
const (
	Any  Family = 0 // AF_UNSPEC: A and AAAA side by side
	IPv4 Family = 4 // A only
	IPv6 Family = 6 // AAAA only
)

// Options configure Resolve, Events and Run. Only Name is needed.
type Options struct {
	// Name is what to resolve: a host name (Unicode names are punycoded), an
	// absolute name with its trailing dot, an address literal, or a name
	// under in-addr.arpa or ip6.arpa that stands for an address. The last
	// two get reverse lookups only.
	Name   string
	Family Family

	// ResolvConf is the file to read. Empty means /etc/resolv.conf.
	ResolvConf string
	// Config replaces the file where it is not nil.
	Config *Config
	// Model is whose rules the stub follows. Empty means Glibc; HostModel
	// tells that of this host.
	Model Model
	// Hosts is the hosts file, asked before the DNS. Empty means /etc/hosts.
	Hosts string
	// NoHosts leaves the hosts file unread.
	NoHosts bool
	// Port is where every nameserver listens. Zero means 53; resolv.conf
	// cannot say it.
	Port uint16

	// Exchanger carries the queries. Nil means a Host with the fields below.
	Exchanger Exchanger
	// Source is the local address of the queries. The zero Addr leaves it to
	// the kernel.
	Source netip.Addr
	// Interface binds the queries to a network interface (Linux).
	Interface string

	// ClientAddr is this host's address as the web server sees it, for its
	// reverse lookup. The zero Addr means the source address that the kernel
	// chooses towards the first address found.
	ClientAddr netip.Addr
	// NoReverse leaves out the reverse lookups.
	NoReverse bool

	// Probes is how often each server is asked for each type. Zero means 5;
	// at most 100.
	Probes int
	// Wait is how long a direct query waits, from the moment it was sent.
	// Zero means 2 s, or longer where the stub has seen a slower answer.
	Wait time.Duration

	// OnStub, where set, is called with the stub's result as soon as there is
	// one, before the rest of the measurement, so that others can go on with
	// the addresses. It is not called for address literals.
	OnStub func(*Stub)
}
