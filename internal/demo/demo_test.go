package demo

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whyslow/whyslow/internal/netlab"
	"github.com/whyslow/whyslow/internal/netlab/labtest"
	"github.com/whyslow/whyslow/reports"
)

func TestMain(m *testing.M) { os.Exit(netlab.Main(m)) }

func TestSameSeedSamePlan(t *testing.T) {
	for _, s := range Scenarios() {
		a, b, other := newPlan(s, 7), newPlan(s, 7), newPlan(s, 8)
		if diff := cmp.Diff(a.there, b.there); diff != "" || a.truth != b.truth || a.url() != b.url() {
			t.Errorf("%s: two plans of one seed differ (-first +second):\n%s", s.Name, diff)
		}
		if cmp.Equal(a.there, other.there) {
			t.Errorf("%s: seeds 7 and 8 give the same links", s.Name)
		}
	}
}

// Every scenario's truth is one that a verdict can give, and its fault is where
// it says.
func TestTruths(t *testing.T) {
	layers := map[reports.Layer]bool{reports.Network: true, reports.DNS: true, reports.Server: true, reports.None: true}
	names := map[string]bool{}
	for _, s := range Scenarios() {
		if names[s.Name] {
			t.Errorf("two scenarios are named %s", s.Name)
		}
		names[s.Name] = true
		for seed := range uint64(200) {
			p := newPlan(s, seed)
			if !layers[p.truth.Layer] || p.truth.Component == "" || p.truth.Story == "" {
				t.Fatalf("%s, seed %d: truth %+v", s.Name, seed, p.truth)
			}
			if len(p.there) != len(p.routers)+1 || len(p.back) != len(p.there) {
				t.Fatalf("%s, seed %d: %d routers, %d and %d links", s.Name, seed, len(p.routers), len(p.there), len(p.back))
			}
		}
	}
	if len(names) < 10 {
		t.Errorf("%d scenarios, want at least 10", len(names))
	}
}

func TestSlowLinkHasAnInnocentRouterBeforeIt(t *testing.T) {
	s, _ := Find("slow-link")
	for seed := range uint64(200) {
		p := newPlan(s, seed)
		slow, innocent := -1, -1
		for i, l := range p.there {
			if l.Delay > 50*time.Millisecond {
				slow = i
			}
		}
		for i, r := range p.routers {
			if r.ControlDelay > 0 {
				innocent = i
			}
		}
		// Router i answers at hop i+1; link i begins at hop i.
		if slow < 1 || innocent < 0 || innocent+1 >= slow+1 || p.truth.Where != p.link(slow) {
			t.Fatalf("seed %d: slow link %d, innocent router %d, truth %q", seed, slow, innocent, p.truth.Where)
		}
	}
}

// The demo's own lab, and the verdicts it is sure of: one fault of each layer.
func TestVerdictsInLab(t *testing.T) {
	labtest.Need(t)
	for _, name := range []string{"healthy", "slow-link", "slow-authority", "slow-tls"} {
		t.Run(name, func(t *testing.T) {
			s, ok := Find(name)
			if !ok {
				t.Fatal("no such scenario")
			}
			out, err := RunInLab(t.Context(), s, Options{Seed: 1})
			if err != nil {
				t.Fatal(err)
			}
			wantRight(t, out)
		})
	}
}

// Where the kernel permits no namespaces, faults of DNS and of the server are
// shown on loopback, by an ordinary process without any privilege.
func TestVerdictsOnLoopback(t *testing.T) {
	if netlab.Inside() {
		if err := netlab.Prepare(); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"healthy", "slow-resolver", "hostname-lookups", "slow-body"} {
		t.Run(name, func(t *testing.T) {
			s, _ := Find(name)
			out, err := RunOnLoopback(t.Context(), s, Options{Seed: 1})
			if err != nil {
				t.Fatal(err)
			}
			wantRight(t, out)
			wantNoFileThatIsGone(t, out)
		})
	}
}

// The demo's report named a resolv.conf that was gone when one read it.
func wantNoFileThatIsGone(t *testing.T, out Outcome) {
	t.Helper()
	b, err := json.Marshal(out.Report)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(b), "/resolv.conf") {
		t.Errorf("a path in %q, or elsewhere in the report", out.Report.Environment.Resolver)
	}
}

func TestNetworkFaultsAreNotRunnableOnLoopback(t *testing.T) {
	s, _ := Find("slow-link")
	out, err := RunOnLoopback(t.Context(), s, Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	if out.NotRunnable == "" || out.Report != nil || out.Truth.Layer != reports.Network {
		t.Errorf("outcome %+v, want one that says why it can't run", out)
	}
}

func wantRight(t *testing.T, out Outcome) {
	t.Helper()
	if _, component := out.Right(); !component {
		v := out.Report.Verdict
		t.Errorf("truth %s/%s (%s), verdict %s: %s", out.Truth.Layer, out.Truth.Component, out.Truth.Story, v.Layer, v.Summary)
	}
}
