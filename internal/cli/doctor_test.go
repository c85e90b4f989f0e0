package cli

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whyslow/whyslow/internal/netprobe"
)

// What an ordinary user reads of path tracing: everything but what only the
// quoted IP header shows, and TCP on one path only probe by probe.
func TestDoctorOfAnOrdinaryUser(t *testing.T) {
	var caps []netprobe.Capability
	for _, id := range []netprobe.CapabilityID{netprobe.CapUDPErrors4, netprobe.CapTCPConnect4, netprobe.CapExtensions4} {
		caps = append(caps, netprobe.Capability{ID: id, State: netprobe.Available})
	}
	caps = append(caps, netprobe.Capability{ID: netprobe.CapRawICMP4, State: netprobe.Denied, Remedy: netprobe.RemedyNetRaw})
	want := []ability{
		{"one path by ICMP, IPv4", false, "needs one of: raw-icmp-v4, ping-v4"},
		{"one path by UDP, IPv4", true, "udp-error-queue-v4"},
		{"one path by TCP, IPv4", true, "tcp-ttl-connect-v4, one probe after the other"},
		{"MPLS labels, IPv4", true, "error-extensions-v4"},
		{"MSS clamp and NAT, IPv4", true, "tcp-ttl-connect-v4"},
		{"quoted TTL and DSCP, IPv4", false, "needs one of: raw-icmp-v4"},
	}
	var got []ability
	for _, a := range abilities(caps) {
		if slices.ContainsFunc(want, func(w ability) bool { return w.What == a.What }) {
			got = append(got, a)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("abilities (-want +got):\n%s", diff)
	}
	for _, id := range []netprobe.RemedyID{netprobe.RemedyNetRaw, netprobe.RemedyKernel} {
		if advice(id) == "" {
			t.Errorf("no advice for %s", id)
		}
	}
}
