package trace

import (
	"fmt"
	"time"

	"github.com/whyslow/whyslow/internal/netprobe"
	"github.com/whyslow/whyslow/internal/wire"
)

const (
	// portUnreachable is the answer of a host to UDP that it does not want.
	portUnreachable = "port unreachable"
	// What a router says whose neighbour answers no ARP, or no solicitation.
	hostUnreachable4 = "host unreachable"
	hostUnreachable6 = "address unreachable"
)

// neighbourSearch is less than what a router takes to find out that a neighbour
// is not there: three solicitations a second apart (RFC 4861, 10; Linux does
// the same by ARP).
const neighbourSearch = time.Second

// sought reports whether an answer tells of a search for a neighbour. What it
// took is no delay of the path.
func sought(answer string, rtt time.Duration) bool {
	return (answer == hostUnreachable4 || answer == hostUnreachable6) && rtt > neighbourSearch
}

// meaning says what a reply means for the path, and in words what it was. It
// judges by type, never by the sender: a router may answer with the
// destination's address, and a translated destination with another. An empty
// role is a reply that does not tell of the path.
func meaning(r wire.Reply, m netprobe.Method, v6 bool) (Role, string) {
	switch r.Kind {
	case wire.TimeExceeded:
		return RoleRouter, "time exceeded"
	case wire.EchoReply:
		return RoleDestination, "echo reply"
	case wire.PortReply:
		switch {
		case m == netprobe.TCP && r.Reset:
			return RoleDestination, "reset" // refused, by the destination itself
		case m == netprobe.TCP && r.Type == 0 && r.Code == 0:
			return RoleDestination, "syn-ack"
		case r.Type == 0 && r.Code == 0:
			return RoleDestination, "udp reply"
		}
		return RoleDestination, portUnreachable
	case wire.Unreachable:
		return RoleRefusal, unreachable(r.Code, v6)
	case wire.OtherError:
		return RoleRouter, fmt.Sprintf("icmp type %d code %d", r.Type, r.Code)
	}
	return "", ""
}

// unreachable names a destination-unreachable code: RFC 792 and RFC 1812
// 5.2.7.1, or RFC 4443 3.1.
func unreachable(code uint8, v6 bool) string {
	names := map[uint8]string{0: "network unreachable", 1: hostUnreachable4, 2: "protocol unreachable", 3: portUnreachable,
		5: "source route failed", 6: "network unknown", 7: "host unknown", 9: "network prohibited",
		10: "host prohibited", 13: "administratively prohibited", 14: "precedence violation", 15: "precedence cutoff"}
	if v6 {
		names = map[uint8]string{0: "no route", 1: "administratively prohibited", 2: "beyond scope",
			3: hostUnreachable6, 4: portUnreachable, 5: "source address refused", 6: "route rejected"}
	}
	if name, ok := names[code]; ok {
		return name
	}
	return fmt.Sprintf("unreachable, code %d", code)
}

// typeCode are the ICMP type and code of a reply, nil if it was no ICMP.
func typeCode(r wire.Reply) (typ, code *int) {
	if r.Kind == wire.PortReply && r.Type == 0 && r.Code == 0 {
		return nil, nil
	}
	t, c := int(r.Type), int(r.Code)
	return &t, &c
}
