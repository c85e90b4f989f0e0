package trace

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/whyslow/whyslow/internal/netprobe"
	"github.com/whyslow/whyslow/internal/netprobe/modelnet"
	"github.com/whyslow/whyslow/internal/simnet"
	"github.com/whyslow/whyslow/internal/wire"
)

// sampledText traces and samples, and returns what is read from it.
func sampledText(t *testing.T, l *lab, m netprobe.Method) (*Result, string) {
	t.Helper()
	res := traced(t, l, Options{Method: m})
	if err := Sample(context.Background(), res, SampleOptions{Network: l.Network}); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, s := range res.Reading {
		fmt.Fprintf(&b, "%s %s\n", s.Rule, s.Text)
	}
	return res, b.String()
}

// lastRouter filters what comes to the destination.
func lastRouter(v6 bool, seed uint64, f simnet.Filter) plan {
	return plan{seed: seed, v6: v6, routers: 4, router: func(ttl int, r *simnet.Router) {
		if ttl == 4 {
			r.Filters = []simnet.Filter{f}
		}
	}}
}

// says fails unless each of want, and none of not, is in a reading.
func says(t *testing.T, text string, want []string, not ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("not said: %q in\n%s", w, text)
		}
	}
	for _, n := range not {
		if strings.Contains(text, n) {
			t.Errorf("said: %q in\n%s", n, text)
		}
	}
}

// A host that drops echoes loses no connection, and no link loses anything.
func TestEchoesDroppedByTheHostAreNoLossOfTheLink(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		for _, share := range []float64{0.3, 0.9} {
			for _, m := range []netprobe.Method{netprobe.Auto, netprobe.TCP} {
				for seed := range uint64(10) {
					inLab(t, lastRouter(v6, seed, simnet.Filter{Proto: wire.ICMP, Echo: true, Share: share}), func(t *testing.T, l *lab) {
						res, text := sampledText(t, l, m)
						says(t, text, nil, "packets are lost on", "R10")
						if res.Destination.Method == "icmp" { // else it seemed to answer none
							says(t, text, []string{"R3 ", "it limits echoes"})
						}
					})
				}
			}
		}
	}
}

// Connections that get lost are neither a limit on ICMP errors nor harmless,
// because echoes come through.
func TestLossOfTCPAloneIsNotCalledHarmless(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		told := 0
		for seed := range uint64(20) {
			inLab(t, lastRouter(v6, seed, simnet.Filter{Proto: wire.TCP, Share: 0.25}), func(t *testing.T, l *lab) {
				res, text := sampledText(t, l, netprobe.TCP)
				says(t, text, nil, "packets are lost on", "filtered, not broken")
				if connects(res).lost() > 0 {
					says(t, text, nil, "R10")
				}
				if connects(res).lossy() {
					told++
					says(t, text, []string{"R2 ", "TCP connects to the destination (port 443) are lost"}, "not loss", "loses nothing it forwards")
				}
			})
		}
		if told < 10 {
			t.Errorf("v6=%v: told in %d of 20 runs", v6, told)
		}
	}
}

// A dead member of parallel paths is no filter, though echoes take another.
func TestDeadMemberIsNotCalledFiltered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		said := 0
		for seed := range uint64(20) {
			net, client, ids, dst := graphNet(seed, fan(1, 3, 1), false, simnet.HashFlow)
			net.SetLink(ids["a00"], ids["b01"], simnet.Link{Delay: time.Millisecond, Loss: 1})
			w := modelnet.New(net, client)
			res, err := Run(t.Context(), Options{Network: w, Dst: dst, Method: netprobe.TCP})
			if err != nil {
				t.Fatal(err)
			}
			if err := Sample(t.Context(), res, SampleOptions{Network: w}); err != nil {
				t.Fatal(err)
			}
			text := fmt.Sprint(res.Reading)
			says(t, text, nil, "filtered, not broken", "R10")
			if strings.Contains(text, "parallel paths") {
				said++
			}
			w.Close()
		}
		if said < 6 { // the model's connects are one flow too: a third of them meets the dead member
			t.Errorf("parallel paths are named in %d of 20 runs", said)
		}
	})
}

// One sentence does not deny what another says.
func TestLossAndLimitsDoNotContradict(t *testing.T) {
	for seed := range uint64(30) {
		p := plan{seed: seed, routers: 5, link: func(ttl int, there, back *simnet.Link) {
			if ttl == 2 {
				there.Loss = 0.4
			}
		}}
		inLab(t, p, func(t *testing.T, l *lab) {
			res, text := sampledText(t, l, netprobe.Auto)
			at := LossAt(res)
			if !at.Found {
				return
			}
			for _, h := range res.Hops {
				if h.TTL < at.ToTTL || h.Silent {
					continue
				}
				name := hopName(h.TTL, h.Replies[0].Addr)
				for line := range strings.Lines(text) {
					if strings.Contains(line, name) && (strings.Contains(line, "not loss") || strings.Contains(line, "loses nothing")) {
						t.Errorf("hop %d lies behind the loss: %s", h.TTL, line)
					}
				}
			}
		})
	}
}
