package netprobe

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var allCapabilities = []CapabilityID{
	CapRawICMP4, CapRawICMP6, CapPing4, CapPing6, CapUDPErrors4, CapUDPErrors6,
	CapTCPConnect4, CapTCPConnect6, CapExtensions4, CapExtensions6,
	CapTimestampsRX, CapTimestampsTX,
	CapTUN, CapNamespaces, CapPacket,
}

// states returns the states by id after checking what holds of every entry.
func states(t *testing.T, list []Capability) map[CapabilityID]Capability {
	t.Helper()
	byID := map[CapabilityID]Capability{}
	var ids []CapabilityID
	for _, c := range list {
		ids = append(ids, c.ID)
		byID[c.ID] = c
		if c.Detail == "" {
			t.Errorf("%s: no detail", c.ID)
		}
		if c.State == Available && (c.Errno != "" || c.Remedy != "") {
			t.Errorf("%s is available, but %+v", c.ID, c)
		}
		if c.State == Denied && (c.Errno == "" || c.Remedy == "") {
			t.Errorf("%s is denied without a reason or a remedy: %+v", c.ID, c)
		}
	}
	if diff := cmp.Diff(allCapabilities, ids); diff != "" {
		t.Errorf("ids (-want +got):\n%s", diff)
	}
	return byID
}

func TestCapabilitiesOfANamespace(t *testing.T) {
	newChainWithoutPing(t, 0)
	got := states(t, Capabilities(t.Context()))
	for id, c := range got {
		want := Available
		switch id {
		case CapPing4, CapPing6:
			want = Denied
		case CapTUN:
			continue // depends on the user
		}
		if c.State != want {
			t.Errorf("%s: %+v, want %s", id, c, want)
		}
	}
	if c := got[CapPing6]; c.Errno != "EACCES" || c.Remedy != RemedyPingGroupRange {
		t.Errorf("%+v", c)
	}
	allowPing(t)
	if c := states(t, Capabilities(t.Context()))[CapPing6]; c.State != Available {
		t.Errorf("%+v", c)
	}
}

func TestCapabilitiesWithoutIPv6(t *testing.T) {
	newChain(t, 0)
	sysctl(t, "net/ipv6/conf/all/disable_ipv6", "1")
	got := states(t, Capabilities(t.Context()))
	for _, id := range []CapabilityID{CapRawICMP6, CapPing6, CapUDPErrors6, CapTCPConnect6} {
		if c := got[id]; c.State != Unavailable || c.Remedy != RemedyIPv6 {
			t.Errorf("%+v", c)
		}
	}
	if c := got[CapTimestampsRX]; c.State != Available {
		t.Errorf("%+v", c)
	}
}

func TestCapabilitiesWithoutLoopback(t *testing.T) {
	newChain(t, 0)
	loopbackDown(t)
	for _, id := range []CapabilityID{CapRawICMP4, CapRawICMP6, CapUDPErrors4} {
		if c := states(t, Capabilities(t.Context()))[id]; c.State == Available || c.Remedy != RemedyLoopbackUp {
			t.Errorf("%+v", c)
		}
	}
}

func TestCapabilitiesEndWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	before := descriptors(t)
	for _, c := range states(t, Capabilities(ctx)) {
		if c.State == Available {
			t.Errorf("%+v", c)
		}
	}
	if left := descriptors(t) - before; left > 0 {
		t.Errorf("%d descriptors left", left)
	}
}
