package pmtu

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/whyslow/whyslow/internal/millis"
)

// web is a server behind a link whose way back carries mtu bytes and reports
// nothing.
type web struct {
	mtu    int // 0 means any
	ours   int // the MTU of this host's interface, 0 is 1500
	own    int // the largest segment the server sends, 0 is what it is asked for
	page   int64
	think  time.Duration
	refuse string
	drops  int64 // so many first answers are lost whatever their size
	header int
	asked  int64 // requests; atomic
}

func (w *web) fetch(ctx context.Context, mss int, patience time.Duration) Fetched {
	nth := atomic.AddInt64(&w.asked, 1)
	begin := time.Now()
	top := cmp.Or(w.ours, 1500) - w.header
	f := Fetched{OurMSS: top, PeerMSS: top}
	if mss > 0 {
		f.OurMSS = mss
	}
	if w.refuse != "" {
		return Fetched{Failure: w.refuse}
	}
	segment := f.OurMSS
	if w.own > 0 {
		segment = min(segment, w.own)
	}
	segment = int(min(int64(segment), w.page))
	wait := 50*time.Millisecond + w.think
	f.Stalled = wait > patience || nth <= w.drops || w.mtu > 0 && segment+w.header > w.mtu
	if f.Stalled {
		wait = patience
	} else {
		f.Bytes, f.LargestMSS = w.page, segment
	}
	select {
	case <-time.After(wait):
	case <-ctx.Done():
	}
	f.Elapsed = millis.Of(time.Since(begin))
	return f
}

func TestBackward(t *testing.T) {
	yes, no := "true", "false"
	for _, tt := range []struct {
		name string
		web  web
		mtu  string
		hole string
		note string
		odd  bool // no size that a tunnel leaves
	}{
		{"whole", web{page: 60000}, "1500", no, "", false},
		{"the server has small segments", web{page: 60000, own: 1360}, "1400", no, "", false},
		{"a small page", web{page: 900}, "null", "null", "too small", false},
		{"a page of one segment and a bit, whole", web{page: 1500}, "1500", no, "", false},
		{"refused", web{refuse: "port 443 refuses connections"}, "null", "null", "refuses", false},
		{"a slow server", web{page: 60000, think: 4 * time.Second}, "null", "null", "not a matter of size", false},
		{"an answer lost once", web{page: 60000, drops: 1}, "null", "null", "rather loss", false},
		{"mute", web{page: 60000, think: time.Hour}, "null", "null", "not a matter of size", false},
		{"lost with every size", web{page: 60000, drops: 100}, "null", "null", "not a matter of size", false},
		{"PPPoE", web{page: 60000, mtu: 1492}, "1492", yes, "", false},
		{"6in4", web{page: 60000, mtu: 1480}, "1480", yes, "", false},
		{"one byte", web{page: 60000, mtu: 1499}, "1499", yes, "", false},
		{"odd", web{page: 60000, mtu: 1411}, "1411", yes, "", true},
		{"minimum of IPv6", web{page: 60000, mtu: 1280}, "1280", yes, "", false},
		{"just above it", web{page: 60000, mtu: 1287}, "1287", yes, "", true},
		{"jumbo to Ethernet, not PPPoE", web{page: 60000, ours: 9000, mtu: 1500}, "1500", yes, "", false},
		{"jumbo to an odd size", web{page: 60000, ours: 9000, mtu: 4321}, "4321", yes, "", true},
		{"as little as IPv4 may carry", web{page: 60000, mtu: 1003}, "1003", yes, "", true},
	} {
		for _, dst := range []netip.Addr{addr4(200), addr6(200)} {
			if dst.Is6() && tt.web.mtu > 0 && tt.web.mtu < leastMTU6 {
				continue // no link of IPv6 may carry so little
			}
			t.Run(fmt.Sprintf("%s v6=%v", tt.name, dst.Is6()), func(t *testing.T) {
				w := tt.web
				w.header = headerBytes(dst)
				if w.own > 0 {
					w.own = 1400 - w.header
				}
				synctest.Test(t, func(t *testing.T) {
					begin := time.Now()
					b := runBackward(t.Context(), dst, w.fetch)
					hole := "null"
					if b.BlackHole != nil {
						hole = fmt.Sprint(*b.BlackHole)
					}
					if got := show(b.MTU); got == "null" && tt.odd {
						// Not to the byte, but the truth within.
						var lo, hi, truth int
						fmt.Sscan(tt.mtu, &truth)
						n, _ := fmt.Sscanf(b.Note, "the largest packet that comes through has between %d and %d bytes", &lo, &hi)
						if n != 2 || truth < lo || truth > hi || hi-lo > truth/5 || hole != yes {
							t.Errorf("black hole %s, note %q; want %s in a narrow range", hole, b.Note, tt.mtu)
						}
					} else if got != tt.mtu || hole != tt.hole || !strings.Contains(b.Note, tt.note) || tt.note == "" && b.Note != "" {
						t.Errorf("MTU %s, black hole %s, note %q; want %s, %s, %q", show(b.MTU), hole, b.Note, tt.mtu, tt.hole, tt.note)
					}
					if took := time.Since(begin); took > 7*time.Second || len(b.Fetches) > maxLoads {
						t.Errorf("%d requests in %v", len(b.Fetches), took)
					}
					t.Logf("%d requests in %v", len(b.Fetches), time.Since(begin))
				})
			})
		}
	}
}

// A black hole found over HTTP stands beside what the probes found the other
// way, and costs no time of theirs.
func TestBackwardBesideForward(t *testing.T) {
	inLab(t, plan{mtu: map[int]int{5: 1492}}, func(t *testing.T, l *lab) {
		w := web{page: 60000, mtu: 1400, header: 40}
		res := measured(t, l, Options{Fetch: w.fetch})
		hole := res.Backward.BlackHole
		if show(res.MTU) != "1492" || show(res.Backward.MTU) != "1400" || hole == nil || !*hole || res.BlackHole {
			t.Errorf("there %s, back %s, black hole %v", show(res.MTU), show(res.Backward.MTU), hole)
		}
		if diff := strings.Join(res.Tunnel, "; "); !strings.Contains(diff, "PPPoE") {
			t.Errorf("1492 suggests %q", diff)
		}
	})
}

func TestBackwardInterrupted(t *testing.T) {
	for _, after := range []time.Duration{10 * time.Millisecond, time.Second, 3100 * time.Millisecond, 4 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), after)
			defer cancel()
			begin := time.Now()
			w := web{page: 60000, mtu: 1400, header: 40}
			b := runBackward(ctx, addr4(200), w.fetch)
			if took := time.Since(begin); took > after {
				t.Errorf("after %v: returned after %v", after, took)
			}
			if b.Note == "" || b.MTU != nil {
				t.Errorf("after %v: MTU %s, note %q", after, show(b.MTU), b.Note)
			}
		})
	}
}
