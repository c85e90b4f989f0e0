package diagnose_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whyslow/whyslow/dnscheck"
	"github.com/whyslow/whyslow/internal/diagnose"
	"github.com/whyslow/whyslow/internal/netlab/labtest"
	"github.com/whyslow/whyslow/internal/netlab/servers"
	"github.com/whyslow/whyslow/trace"
)

// A trace with origins from a zone that a real nameserver holds.
func TestOriginsFromNSD(t *testing.T) {
	labtest.Need(t, "nsd")
	n := newNetwork(t, shape{rtt: 8 * time.Millisecond})
	d, err := servers.StartNSD(t.Context(), n.resolver, servers.NSDConfig{
		Addrs: []netip.AddrPort{netip.AddrPortFrom(resolverAddr, 53)},
		Zones: []servers.Zone{{Origin: "as.example", Records: []string{
			`0.100.51.198.origin IN TXT "64500 | 198.51.100.0/24 | ZZ | iana | 2010-01-01"`,
			`0.113.0.203.origin IN TXT "64501 | 203.0.113.0/24 | ZZ | iana | 2010-01-01"`,
			`AS64500 IN TXT "64500 | ZZ | iana | 2010-01-01 | TRANSIT - Carrier, ZZ"`,
			`AS64501 IN TXT "64501 | ZZ | iana | 2010-01-01 | SHOP"`,
		}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	conf := &dnscheck.Config{Nameservers: []netip.Addr{resolverAddr}}
	res, err := trace.Run(t.Context(), trace.Options{Dst: webAddr, NamesGrace: 2 * time.Second,
		Origin: diagnose.NewOrigins(&dnscheck.Host{}, conf, 53, "as.example").Find})
	if err != nil {
		t.Fatal(err)
	}
	var got []trace.AS
	for _, h := range res.Hops {
		if len(h.Replies) > 0 && h.Replies[0].AS != nil {
			got = append(got, *h.Replies[0].AS)
		}
	}
	transit := trace.AS{Number: 64500, Name: "TRANSIT - Carrier, ZZ", Prefix: "198.51.100.0/24"}
	want := []trace.AS{transit, transit, transit, {Number: 64501, Name: "SHOP", Prefix: "203.0.113.0/24"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("origins (-want +got):\n%s", diff)
	}
}
