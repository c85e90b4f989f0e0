package dnscheck

import (
	"io"
	"net/netip"
	"time"
)

// DefaultResolvConf is the file that glibc reads.
const DefaultResolvConf = "/etc/resolv.conf"

// Config is a resolver configuration as glibc 2.36 would have it in force
// after reading resolv.conf: defaults filled in, values capped.
type Config struct {
	File        string       // "" if it came from no file
	Nameservers []netip.Addr // at most 3
	Search      []string     // without "."
	SearchRoot  bool         // the search list held ".", which asks for the bare name
	Timeout     time.Duration
	Attempts    int
	Ndots       int

	Rotate, SingleRequest, SingleRequestReopen bool
	UseVC, EDNS0, TrustAD, NoAAAA, NoTLDQuery  bool

	// Options are the option words as written.
	Options []string

	// The lines that said so, for Finding.Line.
	NameserverLines         []int
	SearchLine, OptionsLine int

	// Warnings name what glibc ignores or caps, by line.
	Warnings []string
}

// LoadResolvConf reads file, empty meaning DefaultResolvConf. A file that does
// not exist is no error, as for glibc: the nameserver is then 127.0.0.1.
func LoadResolvConf(file string) (*Config, error) { return nil, nil }

// ParseResolvConf reads a resolv.conf. Only reading can fail: glibc ignores
// what it does not understand, and so does this, with a warning.
func ParseResolvConf(r io.Reader) (*Config, error) { return nil, nil }
