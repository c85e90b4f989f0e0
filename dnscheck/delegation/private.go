package delegation

import (
	"fmt"
	"strings"

	"github.com/miekg/dns"
)

// private reports whether a name is one that the public root does not know:
// names of private networks (RFC 6761, 6762, 8375, 7686; .internal by ICANN's
// resolution of 2024), addresses of private networks (RFC 6303, 7793), and
// names of one label, which a search list is for.
func private(name string) bool {
	if dns.CountLabel(name) == 1 {
		return len(name) > 0 && !strings.HasSuffix(name, "arpa.")
	}
	for _, s := range privateNames() {
		if dns.IsSubDomain(s, name) {
			return true
		}
	}
	return false
}

func privateNames() []string {
	out := []string{
		"local.", "internal.", "home.arpa.", "localhost.", "test.", "invalid.", "example.", "onion.", "alt.", "lan.", "corp.", "home.", "intranet.", "private.",
		"10.in-addr.arpa.", "127.in-addr.arpa.", "0.in-addr.arpa.", "254.169.in-addr.arpa.", "168.192.in-addr.arpa.",
		"2.0.192.in-addr.arpa.", "100.51.198.in-addr.arpa.", "113.0.203.in-addr.arpa.", "255.255.255.255.in-addr.arpa.",
		"d.f.ip6.arpa.", "c.f.ip6.arpa.", "8.e.f.ip6.arpa.", "9.e.f.ip6.arpa.", "a.e.f.ip6.arpa.", "b.e.f.ip6.arpa.", "8.b.d.0.1.0.0.2.ip6.arpa.",
		"1" + strings.Repeat(".0", 31) + ".ip6.arpa.", "0" + strings.Repeat(".0", 31) + ".ip6.arpa.",
	}
	for i := 16; i < 32; i++ {
		out = append(out, fmt.Sprintf("%d.172.in-addr.arpa.", i))
	}
	for i := 64; i < 128; i++ { // RFC 6598
		out = append(out, fmt.Sprintf("%d.100.in-addr.arpa.", i))
	}
	return out
}
