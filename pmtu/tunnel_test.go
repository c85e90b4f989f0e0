package pmtu

import (
	"strings"
	"testing"
)

func TestSuggests(t *testing.T) {
	for _, tt := range []struct {
		mtu  int
		want string // in the first suggestion; "" is none at all
	}{
		{1500, ""}, {9000, ""}, {1499, ""}, {1333, ""}, {0, ""}, {-1, ""}, {65535, ""},
		{1492, "PPPoE"}, {1480, "6in4"}, {1476, "GRE over IPv4"}, {1472, "GRE with a key"}, {1464, "GTP"}, {1462, "GRETAP"},
		{1460, "L2TP"}, {1450, "VXLAN over IPv4"}, {1442, "Geneve"}, {1440, "WireGuard over IPv4"}, {1430, "VXLAN over IPv6"},
		{1420, "WireGuard's default"}, {1438, "IPsec"}, {1400, "VPN"}, {1280, "IPv6's minimum"}, {8950, "VXLAN over IPv4"},
		{1496, "MPLS"}, {576, "RFC 791"}, {552, "Linux"},
		{1412, "over PPPoE"}, {1407, ""}, {1411, ""}, {1445, "IPsec"},
	} {
		got := Suggests(tt.mtu)
		if tt.want == "" && got != nil || tt.want != "" && (len(got) == 0 || !strings.Contains(got[0], tt.want)) {
			t.Errorf("%d suggests %q, want %q first", tt.mtu, got, tt.want)
		}
		if len(got) > maxSuggestions {
			t.Errorf("%d suggests %d things", tt.mtu, len(got))
		}
	}
	if got := strings.Join(Suggests(1412), "; "); !strings.Contains(got, "WireGuard's default, which allows for IPv6 over PPPoE") {
		t.Errorf("1412 suggests %q", got)
	}
}
