package trace

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/whyslow/whyslow/internal/netprobe"
	"github.com/whyslow/whyslow/internal/netprobe/modelnet"
	"github.com/whyslow/whyslow/internal/simnet"
	"github.com/whyslow/whyslow/internal/wire"
)

// sampledRun traces and samples.
func sampledRun(t *testing.T, l *lab, opt SampleOptions) *Result {
	t.Helper()
	res := traced(t, l, Options{})
	opt.Network = l.Network
	if err := Sample(context.Background(), res, opt); err != nil {
		t.Fatalf("Sample: %v", err)
	}
	return res
}

func TestSampleSound(t *testing.T) {
	inLab(t, plan{router: func(ttl int, r *simnet.Router) {
		switch ttl {
		case 3:
			r.ErrorBurst, r.ErrorEvery = 1, time.Minute // limits errors
		case 5:
			r.ControlDelay, r.ControlJitter = 40*time.Millisecond, 40*time.Millisecond
		case 6:
			r.Silent = true
		case 7:
			r.EchoSilent = true
		}
	}}, func(t *testing.T, l *lab) {
		start := time.Now()
		res := sampledRun(t, l, SampleOptions{})
		if took := time.Since(start); took > 1800*time.Millisecond {
			t.Errorf("trace and sample took %v", took)
		}
		d := res.Destination
		if d == nil || d.Sent != 100 || d.Received != 100 || d.Method != "icmp" || d.Min.Duration() != 60*time.Millisecond {
			t.Fatalf("destination %+v", d)
		}
		for _, h := range res.Hops {
			sampled := h.Direct != nil
			if want := h.TTL != 6 && h.TTL != 7 && h.TTL != l.ttl; sampled != want {
				t.Errorf("hop %d sampled: %v, want %v", h.TTL, sampled, want)
			}
			if sampled && h.Direct.Loss != 0 {
				t.Errorf("hop %d loses %v of its echoes", h.TTL, h.Direct.Loss)
			}
		}
		loss := LossAt(res)
		if loss.Found || fmt.Sprint(loss.Limited) != "[3]" {
			t.Errorf("loss %+v, want hop 3 limited and none", loss)
		}
		got := rules(res.Reading)
		if got["R3"] != 1 || got["R2"] != 0 || got["R10"] != 1 || got["R4"] != 1 {
			t.Errorf("reading %q", res.Reading)
		}
	})
}

func TestSampleFindsLoss(t *testing.T) {
	right, runs := 0, 0
	for seed := range uint64(20) {
		at := 2 + int(seed%10)
		inLab(t, plan{seed: seed, link: func(ttl int, there, back *simnet.Link) {
			if ttl == at {
				there.Loss, back.Loss = 0.04, 0.04
			}
		}, router: func(ttl int, r *simnet.Router) {
			if ttl == at-1 {
				r.ErrorBurst = 2
			}
		}}, func(t *testing.T, l *lab) {
			runs++
			loss := LossAt(sampledRun(t, l, SampleOptions{}))
			if loss.Found && loss.FromTTL < at && at <= loss.ToTTL {
				right++
			} else {
				t.Logf("seed %d: %+v, want between %d and %d", seed, loss, at-1, at)
			}
		})
	}
	if right < runs-2 {
		t.Errorf("right in %d of %d runs", right, runs)
	}
}

func TestSampleByTCP(t *testing.T) {
	for _, tt := range []struct {
		name string
		plan plan
	}{
		{"no echo", plan{server: simnet.Host{EchoSilent: true}}},
		{"icmp denied", plan{host: modelnet.Options{Deny: []netprobe.Method{netprobe.ICMP}}}},
		{"icmp filtered", plan{router: func(ttl int, r *simnet.Router) {
			if ttl == 9 {
				r.Filters = []simnet.Filter{{Proto: wire.ICMP}}
			}
		}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inLab(t, tt.plan, func(t *testing.T, l *lab) {
				d := sampledRun(t, l, SampleOptions{}).Destination
				if d == nil || d.Method != "tcp" || d.Sent != 20 || d.Received != 20 || d.Min.Duration() != 60*time.Millisecond {
					t.Errorf("destination %+v, want 20 TCP connects", d)
				}
			})
		})
	}
}

func TestSampleSilentDestination(t *testing.T) {
	inLab(t, plan{router: dropAll(8)}, func(t *testing.T, l *lab) {
		res := sampledRun(t, l, SampleOptions{})
		if d := res.Destination; d == nil || d.Received != 0 || d.Sent == 0 || d.Loss != 1 || d.Min.Known() {
			t.Errorf("destination %+v, want all lost and no times", d)
		}
		if loss := LossAt(res); loss.Found {
			t.Errorf("loss %+v: silence is not loss on a link", loss)
		}
	})
}

func TestSampleQueue(t *testing.T) {
	inLab(t, plan{link: func(ttl int, there, back *simnet.Link) {
		if ttl == 7 {
			there.Jitter = 80 * time.Millisecond
		}
	}}, func(t *testing.T, l *lab) {
		res := sampledRun(t, l, SampleOptions{})
		if rules(res.Reading)["R6"] != 2 {
			t.Errorf("queueing is not read: %q", res.Reading)
		}
		worst, most := 0, time.Duration(0)
		for _, s := range Segments(res) {
			if q := s.Typical - s.Delay; q > most {
				worst, most = s.ToTTL, q
			}
		}
		if worst != 7 {
			t.Errorf("queueing is placed before hop %d, want 7", worst)
		}
	})
}

func TestSampleInterrupted(t *testing.T) {
	inLab(t, plan{}, func(t *testing.T, l *lab) {
		res := traced(t, l, Options{})
		ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
		defer cancel()
		start := time.Now()
		err := Sample(ctx, res, SampleOptions{Network: l.Network})
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > 550*time.Millisecond {
			t.Errorf("error %v after %v", err, time.Since(start))
		}
		d := res.Destination
		if d == nil || d.Sent < 35 || d.Sent > 50 || d.Loss != 0 {
			t.Errorf("destination %+v, want about 40 answered and none lost", d)
		}
	})
}

func TestSampleNothing(t *testing.T) {
	if err := Sample(context.Background(), &Result{}, SampleOptions{}); !errors.Is(err, ErrNoDestination) {
		t.Errorf("error %v, want ErrNoDestination", err)
	}
	inLab(t, plan{host: modelnet.Options{Deny: []netprobe.Method{netprobe.ICMP, netprobe.TCP}}}, func(t *testing.T, l *lab) {
		res := sampledRun(t, l, SampleOptions{})
		if res.Destination != nil || len(res.Warnings) == 0 {
			t.Errorf("destination %+v, warnings %q", res.Destination, res.Warnings)
		}
	})
}

func TestSampleIntervals(t *testing.T) {
	s := sampledOf(100, 0)
	if s.LossLow != 0 || math.Abs(s.LossHigh-0.037) > 0.001 {
		t.Errorf("interval of 0 in 100: %v to %v", s.LossLow, s.LossHigh)
	}
}
