package netprobe

import "context"

// Capability is one thing that probing, or the built-in network lab, asks of
// the host, and whether the host permits it to this process.
type Capability struct {
	ID    CapabilityID    `json:"id"`
	State CapabilityState `json:"state"`
	// Errno is the kernel's reason by its symbol, such as "EACCES"; empty if
	// available or if no system call failed.
	Errno string `json:"errno,omitempty"`
	// Detail says what was tried and what came of it, for people.
	Detail string `json:"detail"`
	// Remedy is the key of the remedy; empty if available or if there is none.
	Remedy RemedyID `json:"remedy,omitempty"`
}

// CapabilityID names a capability in output that scripts read.
type CapabilityID string

// What Capabilities tries, in this order.
const (
	CapRawICMP4     CapabilityID = "raw-icmp-v4"
	CapRawICMP6     CapabilityID = "raw-icmp-v6"
	CapPing4        CapabilityID = "ping-v4"
	CapPing6        CapabilityID = "ping-v6"
	CapUDPErrors4   CapabilityID = "udp-error-queue-v4"
	CapUDPErrors6   CapabilityID = "udp-error-queue-v6"
	CapTCPConnect4  CapabilityID = "tcp-ttl-connect-v4"
	CapTCPConnect6  CapabilityID = "tcp-ttl-connect-v6"
	CapExtensions4  CapabilityID = "error-extensions-v4"
	CapExtensions6  CapabilityID = "error-extensions-v6"
	CapTimestampsRX CapabilityID = "kernel-timestamps-rx"
	CapTimestampsTX CapabilityID = "kernel-timestamps-tx"
	CapTUN          CapabilityID = "tun"
	CapNamespaces   CapabilityID = "user-net-namespaces"
	CapPacket       CapabilityID = "packet-socket"
)

// CapabilityState is the outcome of trying a capability.
type CapabilityState string

// The states.
const (
	Available   CapabilityState = "available"
	Denied      CapabilityState = "denied"      // exists, but not for this process
	Unavailable CapabilityState = "unavailable" // the kernel, or this network namespace, does not have it
	Failed      CapabilityState = "failed"      // permitted, but did not work when tried
)

// RemedyID is the key of a remedy; the sentence belongs to the command line.
type RemedyID string

// The remedies.
const (
	RemedyNetRaw         RemedyID = "cap-net-raw"      // give the binary CAP_NET_RAW, or run as root
	RemedyPingGroupRange RemedyID = "ping-group-range" // widen net.ipv4.ping_group_range (it gates v6 too)
	RemedyIPv6           RemedyID = "enable-ipv6"      // IPv6 is off on this host (or on its loopback)
	RemedyTUNModule      RemedyID = "tun-module"       // load the tun module, create /dev/net/tun
	RemedyTUNPermission  RemedyID = "tun-permission"   // give this user access to /dev/net/tun
	RemedyUserNS         RemedyID = "user-namespaces"  // allow unprivileged user namespaces
	RemedyLoopbackUp     RemedyID = "loopback-up"      // the loopback interface is down
	RemedyFirewall       RemedyID = "local-firewall"   // a local firewall or sandbox drops the attempt
	RemedyKernel         RemedyID = "newer-kernel"     // the kernel is too old
	RemedyPlatform       RemedyID = "use-linux"        // the platform has no implementation
)

// Capabilities really tries, on loopback or by opening, what this process may
// do, and returns one entry for each CapabilityID. It changes nothing on the
// host. When ctx ends, what was not tried yet is Failed with ctx's reason.
func Capabilities(ctx context.Context) []Capability {
	return hostCapabilities(ctx)
}
