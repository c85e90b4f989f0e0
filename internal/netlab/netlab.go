// Package netlab runs a simnet topology in real time between network
// namespaces of this machine, with real servers at the ends.
//
// A program enters a lab by running itself again in new namespaces (Enter, or
// Main in a test's TestMain). There its own network namespace is the client's,
// so that the instruments of the same process need no special sockets, and
// every server has a namespace of its own. One thread carries the packets
// between them through the model: from TUN devices where the host permits
// them, else from veth pairs read with packet sockets.
//
// Opinions: nothing is named and nothing is left behind. Namespaces are held by
// threads, devices by descriptors, servers by the process: when it is killed,
// all of it goes. Limits: Linux only; one lab at a time in a process; delays
// are right to a fraction of a millisecond on idle cores, not better.
package netlab

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/whyslow/whyslow/internal/simnet"
)

// ErrUnsupported says that the platform has no network namespaces.
var ErrUnsupported = errors.New("netlab: needs Linux")

// ErrOutside says that a lab was asked for in a process that Enter or Main did
// not start: it would rearrange the host's own network.
var ErrOutside = errors.New("netlab: not inside a lab's namespaces")

// Carrier is how packets get from an end's kernel into the model and back.
type Carrier uint8

// The carriers.
const (
	// AutoCarrier takes TUN where /dev/net/tun opens, else Veth.
	AutoCarrier Carrier = iota
	TUN                 // one TUN device an end
	Veth                // one veth pair an end, its far side read by a packet socket
)

// String returns "auto", "tun" or "veth".
func (c Carrier) String() string {
	switch c {
	case TUN:
		return "tun"
	case Veth:
		return "veth"
	}
	return "auto"
}

// End is one host of the topology whose network stack is the kernel's.
type End struct {
	// Node is the host in the model. Its addresses there and Addrs must agree.
	Node simnet.NodeID
	// Name appears in errors and names nothing in the system. Empty means
	// "end" and the node's number.
	Name string
	// Addrs are the addresses of the end's one interface. Default routes for
	// their families lead into the model.
	Addrs []netip.Addr
	// MTU of the interface in bytes. Zero means that of the host's link in
	// the model.
	MTU int
}

// Config describes a lab.
type Config struct {
	// Net is the model. The lab owns it until Close: afterwards use Lab.Model
	// to touch it.
	Net *simnet.Net
	// Client is the end that this process itself becomes.
	Client simnet.NodeID
	// Ends are the hosts with a real stack, the client among them.
	Ends []End
	// Carrier forces one way of carrying packets. The zero value chooses.
	Carrier Carrier
}

// validate reports what is wrong with a Config.
func (c Config) validate() error {
	if c.Net == nil {
		return errors.New("netlab: a lab needs a model")
	}
	seen := map[simnet.NodeID]bool{}
	for _, e := range c.Ends {
		if seen[e.Node] {
			return fmt.Errorf("netlab: %s is listed twice", e.name())
		}
		seen[e.Node] = true
		if len(e.Addrs) == 0 {
			return fmt.Errorf("netlab: %s has no address", e.name())
		}
		for _, a := range e.Addrs {
			if !a.IsValid() || a.Is4In6() || a.Zone() != "" {
				return fmt.Errorf("netlab: %s: bad address %q", e.name(), a)
			}
		}
		if e.MTU != 0 && (e.MTU < 68 || e.MTU > 65535) {
			return fmt.Errorf("netlab: %s: MTU %d out of range", e.name(), e.MTU)
		}
	}
	if !seen[c.Client] {
		return errors.New("netlab: the client is not among the ends")
	}
	return nil
}

func (e End) name() string {
	if e.Name != "" {
		return e.Name
	}
	return fmt.Sprintf("end %d", e.Node)
}

// withMTUs returns the ends with every MTU set.
func (c Config) withMTUs() []End {
	ends := slices.Clone(c.Ends)
	for i := range ends {
		if ends[i].MTU != 0 {
			continue
		}
		ends[i].MTU = 1500
		for _, other := range c.Ends {
			if other.Node != ends[i].Node {
				ends[i].MTU = c.Net.FirstMTU(ends[i].Node, other.Addrs[0])
				break
			}
		}
	}
	return ends
}

// Traffic counts what the driver carried.
type Traffic struct {
	In  uint64 // packets read from the ends
	Out uint64 // packets written to the ends
	// Dropped counts packets an end's device would not take: it was down, or
	// its buffer full.
	Dropped uint64
	// Late is the largest time by which the driver came too late to the
	// model's next event: a loaded machine shows here.
	Late time.Duration
}

// Reason says why a host permits no lab.
type Reason uint8

// The reasons.
const (
	NotLinux        Reason = iota + 1 // another operating system
	NoUserNamespace                   // no privilege, and user namespaces are forbidden or used up
	NoNetNamespace                    // the kernel or a sandbox refuses network namespaces
	NoCapabilities                    // the namespace was made, but without rights in it (AppArmor)
	NoCarrier                         // neither a TUN device nor a veth pair can be made
)

// PermissionError says that and why a host permits no lab.
type PermissionError struct {
	Reason Reason
	Err    error // what the kernel said; may be nil
}

func (e *PermissionError) Error() string {
	what := map[Reason]string{
		NotLinux:        "needs Linux",
		NoUserNamespace: "user namespaces are not permitted to this user",
		NoNetNamespace:  "network namespaces are not permitted",
		NoCapabilities:  "the host gives no rights inside a user namespace",
		NoCarrier:       "neither TUN devices nor veth pairs can be made",
	}[e.Reason]
	if e.Err != nil {
		return fmt.Sprintf("netlab: %s: %v", what, e.Err)
	}
	return "netlab: " + what
}

func (e *PermissionError) Unwrap() error { return e.Err }
