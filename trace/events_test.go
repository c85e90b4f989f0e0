package trace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/whyslow/whyslow/internal/simnet"
)

// A recorded run folds into the same result.
func TestReplay(t *testing.T) {
	inLab(t, plan{seed: 7, link: func(ttl int, there, back *simnet.Link) { there.Loss = 0.05 }}, func(t *testing.T, l *lab) {
		opt := Options{Network: l.Network, Dst: l.dst, Names: func(_ context.Context, a netip.Addr) string { return a.String() + ".example." }}
		var live, replayed Fold
		for ev, err := range Events(context.Background(), opt) {
			if err != nil {
				t.Fatal(err)
			}
			live.Add(ev)
			line, err := json.Marshal(ev)
			if err != nil {
				t.Fatal(err)
			}
			var back Event
			if err := json.Unmarshal(line, &back); err != nil {
				t.Fatal(err)
			}
			replayed.Add(back)
		}
		want, got := asJSON(t, live.Result()), asJSON(t, replayed.Result())
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-live +replayed):\n%s", diff)
		}
		if !strings.Contains(got, "10.0.3.1.example\"") {
			t.Errorf("no names in %s", got)
		}
	})
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestJSONContract(t *testing.T) {
	inLab(t, plan{}, func(t *testing.T, l *lab) {
		var got map[string]any
		if err := json.Unmarshal([]byte(asJSON(t, traced(t, l, Options{Name: "www.example.com"}))), &got); err != nil {
			t.Fatal(err)
		}
		want := map[string]any{"schema": "whyslow/trace/1", "method": "icmp", "reached": true, "hop_count": 12.0, "back_count": 12.0,
			"flow_stable": true, "pmtu": nil}
		opt := cmpopts.IgnoreMapEntries(func(k string, _ any) bool { _, ok := want[k]; return !ok })
		if diff := cmp.Diff(want, got, opt); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("nothing measured is valid", func(t *testing.T) {
		res, _ := Run(context.Background(), Options{})
		got := asJSON(t, res)
		for _, want := range []string{`"hop_count": null`, `"hops": []`, `"elapsed_ms": null`, `"reading": []`} {
			if !strings.Contains(got, want) {
				t.Errorf("%s is not in %s", want, got)
			}
		}
	})
}

func TestInterrupted(t *testing.T) {
	for _, after := range []time.Duration{0, time.Millisecond, 30 * time.Millisecond, 65 * time.Millisecond, 85 * time.Millisecond, 93 * time.Millisecond} {
		t.Run(after.String(), func(t *testing.T) {
			inLab(t, plan{}, func(t *testing.T, l *lab) {
				ctx, cancel := context.WithTimeout(context.Background(), after)
				defer cancel()
				start := time.Now()
				res, err := Run(ctx, Options{Network: l.Network, Dst: l.dst})
				if !errors.Is(err, context.DeadlineExceeded) || res == nil {
					t.Fatalf("result %v, error %v", res, err)
				}
				if took := time.Since(start) - after; took > 50*time.Millisecond {
					t.Errorf("returned %v after the end", took)
				}
				if after >= 65*time.Millisecond {
					checkSound(t, l, res)
				}
				for _, h := range res.Hops {
					if h.Loss != 0 {
						t.Errorf("hop %d: what was under way counts as lost: %v", h.TTL, h.Loss)
					}
				}
			})
		})
	}
}

func TestBudget(t *testing.T) {
	inLab(t, plan{}, func(t *testing.T, l *lab) {
		res := traced(t, l, Options{Budget: 90 * time.Millisecond})
		if len(res.Warnings) != 1 || !res.Reached {
			t.Errorf("reached %v, warnings %q; want a warning that it was stopped", res.Reached, res.Warnings)
		}
	})
}

func TestConsumerLeaves(t *testing.T) {
	for n := range 80 {
		inLab(t, plan{routers: 4}, func(t *testing.T, l *lab) {
			seen := 0
			for range Events(context.Background(), Options{Network: l.Network, Dst: l.dst}) {
				if seen++; seen > n {
					break
				}
			}
			// synctest fails the test if a goroutine is left behind.
		})
	}
}

func TestNamesNeverDelay(t *testing.T) {
	var bare time.Duration
	for _, names := range []func(context.Context, netip.Addr) string{
		nil,
		func(ctx context.Context, a netip.Addr) string { // dead resolver
			<-ctx.Done()
			return "late.example"
		},
		func(ctx context.Context, a netip.Addr) string {
			if a != addr4(3) {
				<-ctx.Done()
			}
			return "three.example."
		},
	} {
		inLab(t, plan{}, func(t *testing.T, l *lab) {
			start := time.Now()
			res := traced(t, l, Options{Names: names})
			took := time.Since(start)
			if bare == 0 {
				bare = elapsed(res)
			}
			if elapsed(res) != bare || took > bare+310*time.Millisecond {
				t.Errorf("took %v, returned after %v; want %v and 0.3 s", elapsed(res), took, bare)
			}
			if got := res.Hops[2].Replies[0].Name; names != nil && got != "" && got != "three.example" {
				t.Errorf("hop 3 is named %q", got)
			}
		})
	}
}

func TestNames(t *testing.T) {
	inLab(t, plan{}, func(t *testing.T, l *lab) {
		var calls, most, now atomic.Int32
		res := traced(t, l, Options{Names: func(ctx context.Context, a netip.Addr) string {
			calls.Add(1)
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
			}
			if a == l.dst {
				return strings.Repeat("x", 1000)
			}
			return fmt.Sprintf("r%d.example", a.As4()[2])
		}})
		if calls.Load() != 12 || most.Load() < 2 {
			t.Errorf("%d lookups, %d at once; want one each of 12 addresses, side by side", calls.Load(), most.Load())
		}
		for _, h := range res.Hops[:11] {
			if want := fmt.Sprintf("r%d.example", h.TTL); h.Replies[0].Name != want {
				t.Errorf("hop %d is named %q, want %q", h.TTL, h.Replies[0].Name, want)
			}
		}
		if n := len(res.Hops[11].Replies[0].Name); n != 255 {
			t.Errorf("a name of %d bytes got through, want 255", n)
		}
	})
}

func TestQueries(t *testing.T) {
	for _, n := range []int{1, 2, 5} {
		inLab(t, plan{seed: 3}, func(t *testing.T, l *lab) {
			res := traced(t, l, Options{Queries: n})
			checkSound(t, l, res)
			for _, h := range res.Hops {
				if h.Sent != n {
					t.Errorf("hop %d: %d probes, want %d", h.TTL, h.Sent, n)
				}
			}
		})
	}
	t.Run("one query is repeated where it was lost", func(t *testing.T) {
		complete := 0
		for seed := range uint64(20) {
			inLab(t, plan{seed: seed, link: func(ttl int, there, back *simnet.Link) {
				if ttl == 1 {
					there.Loss = 0.05
				}
			}}, func(t *testing.T, l *lab) {
				silent := 0
				for _, h := range traced(t, l, Options{Queries: 1}).Hops {
					if h.Silent {
						silent++
					}
				}
				if silent == 0 {
					complete++
				}
			})
		}
		if complete < 17 {
			t.Errorf("complete in %d of 20 runs", complete)
		}
	})
}

// Probes still under way are not lost in a live view.
func TestLiveView(t *testing.T) {
	inLab(t, plan{}, func(t *testing.T, l *lab) {
		var f Fold
		for ev, err := range Events(context.Background(), Options{Network: l.Network, Dst: l.dst}) {
			if err != nil {
				t.Fatal(err)
			}
			f.Add(ev)
			for _, h := range f.Result().Hops {
				if h.Loss > 0 {
					t.Fatalf("hop %d: loss %v after %s at %v", h.TTL, h.Loss, ev.Kind, ev.At.Sub(f.started))
				}
			}
		}
	})
}

func TestFoldIgnoresNonsense(t *testing.T) {
	var f Fold
	for _, ev := range []Event{
		{Kind: Sent, View: 3}, {Kind: Replied, View: -1}, {Kind: "new"}, {Kind: Named}, {Kind: End},
		{Kind: Begin}, {Kind: Replied, Seq: 9, TTL: 4}, {Kind: Sent, TTL: -5, Seq: 1}, {Kind: Replied, Seq: 1},
	} {
		f.Add(ev)
		if f.Result() == nil {
			t.Fatal("no result")
		}
	}
}
