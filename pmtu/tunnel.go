package pmtu

import (
	"fmt"
	"slices"
)

// maxSuggestions bounds what one number suggests; more say nothing.
const maxSuggestions = 4

// encapsulation is a way to carry packets within others, and what it costs.
type encapsulation struct {
	name  string
	least int // bytes
	most  int // zero means least; padding and options make a range
}

// encapsulations, the common ones first. Sizes count all headers between the
// outer link's MTU and the packet inside.
var encapsulations = [...]encapsulation{
	{name: "PPPoE", least: 8}, // RFC 2516
	{name: "IPIP, 6in4 or 6rd over IPv4", least: 20},
	{name: "GRE over IPv4", least: 24},
	{name: "GRE with a key over IPv4", least: 28},
	{name: "PPTP, or GRE with key and sequence numbers, over IPv4", least: 32},
	{name: "GTP-U over IPv4 (a mobile network)", least: 36},
	{name: "GRETAP over IPv4", least: 38},
	{name: "DS-Lite or another tunnel over IPv6; L2TP; Google Cloud's default", least: 40},
	{name: "GRE over IPv6", least: 44},
	{name: "a tunnel over IPv6 with encapsulation limit, as Linux makes it", least: 48},
	{name: "VXLAN over IPv4", least: 50},
	{name: "Geneve over IPv4, as OVN uses it", least: 58},
	{name: "WireGuard over IPv4", least: 60},
	{name: "VXLAN over IPv6", least: 70},
	{name: "WireGuard's default, which allows for IPv6", least: 80},
	{name: "IPsec (ESP) in tunnel mode", least: 54, most: 85},
	{name: "OpenVPN over UDP", least: 52, most: 73},
	{name: "a VPN's setting, such as IPsec's or OpenVPN's", least: 100},
	{name: "one MPLS label, or a VLAN tag that an interface has no room for", least: 4},
}

// settings are MTUs that are chosen rather than calculated.
var settings = map[int]string{
	1280: "IPv6's minimum, as VPNs such as Tailscale and WARP, 6to4 and Teredo set it",
	1500: "Ethernet",
	576:  "the least that every IPv4 host must accept (RFC 791), set by hand",
	552:  "the least MTU that Linux believes (min_pmtu): it was told an absurd one",
	8500: "AWS's transit gateway",
	9001: "AWS's jumbo frames",
	1006: "SLIP (RFC 1055), set by hand",
}

// Suggests names what could make a path of this MTU, the likeliest first. It is
// a guess from a number: several causes leave the same, and anybody may set any.
// Nil means that the number is nobody's in particular.
func Suggests(mtu int) []string {
	var out []string
	if s, ok := settings[mtu]; ok && mtu != 1500 {
		out = append(out, s)
	}
	for _, base := range [...]int{1500, 9000} {
		for _, e := range encapsulations {
			if e.carries(base - mtu) {
				out = append(out, fmt.Sprintf("%s (%d of %d bytes)", e.name, base-mtu, base))
			}
		}
	}
	// Tunnels over a DSL line: ranges would match everything here.
	for _, e := range encapsulations {
		if e.most == 0 && e.least >= 20 && e.least < 100 && 1492-mtu == e.least {
			out = append(out, fmt.Sprintf("%s over PPPoE (%d of 1492 bytes)", e.name, e.least))
		}
	}
	return slices.Clip(out[:min(len(out), maxSuggestions)])
}

// carries reports whether an encapsulation can cost so many bytes.
func (e *encapsulation) carries(bytes int) bool {
	return bytes >= e.least && bytes <= max(e.most, e.least)
}
