package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/whyslow/whyslow/internal/cli"
	"github.com/whyslow/whyslow/internal/netlab"
	"github.com/whyslow/whyslow/internal/netlab/labtest"
)

// asProgram makes the test binary be whyslow itself: who runs the tests may
// have nothing to build it with.
const asProgram = "WHYSLOW_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) == "1" {
		os.Exit(cli.Run(context.Background(), cli.Host(), os.Args[1:]))
	}
	os.Exit(netlab.Main(m))
}

// whyslowScript is a script that runs this binary as whyslow. The variable must not
// be set for the lab, which runs it again for purposes of its own.
func whyslowScript(t *testing.T) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(t.TempDir(), "whyslow")
	text := fmt.Sprintf("#!/bin/sh\n%s=1 exec '%s' \"$@\"\n", asProgram, exe)
	if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return script
}

// A run of the benchmark, as small as it can be: it must measure ourselves and
// whichever peers there are, and find our paths right.
func TestBenchRuns(t *testing.T) {
	labtest.Need(t)
	binary := whyslowScript(t)
	for _, markdown := range []bool{false, true} {
		var out strings.Builder
		o := options{quick: true, runs: 1, patience: time.Second, binary: binary, markdown: markdown, only: []string{"path/v6"}}
		if err := benchPath(context.Background(), o, &out); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"Linux ", "path/v6", "whyslow trace -q 1", "1/1", "goals met"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("no %q in\n%s", want, &out)
			}
		}
	}
}

func TestOnlyNamesWhatThereIs(t *testing.T) {
	for _, bad := range []string{"paths", "path/nothing", "nothing/v6"} {
		if _, err := parseOptions([]string{"--only", bad}); err == nil {
			t.Errorf("--only %s is accepted", bad)
		}
	}
	o, err := parseOptions([]string{"--only", "path/30-hops,path/v6", "--quick"})
	if err != nil {
		t.Fatal(err)
	}
	for row, want := range map[string]bool{"30-hops": true, "v6": true, "12-hops": false} {
		if o.wants("path", row, false) != want {
			t.Errorf("%s is wanted: %v", row, !want)
		}
	}
	if o.wants("destination", "", true) {
		t.Error("a table nobody asked for is wanted")
	}
}

// Of parallel paths each is right, and a mixture is not.
func TestWorldJudgeOfParallelPaths(t *testing.T) {
	w := forked(1)
	if len(w.paths) != 4 {
		t.Fatalf("%d ways", len(w.paths))
	}
	along := func(way func(ttl int) int) (p path) {
		for i := range w.paths[0] {
			p.hop(i + 1).add(w.paths[way(i+1)][i])
		}
		p.hop(w.ttl).add(w.dst)
		return p
	}
	for n := range w.paths {
		if wrong := w.judge(along(func(int) int { return n })); wrong != "" {
			t.Errorf("way %d: %s", n, wrong)
		}
	}
	if w.judge(along(func(ttl int) int { return ttl % 4 })) == "" {
		t.Error("a mixture of ways is taken for right")
	}
}

// The judge of paths must not let through what is wrong.
func TestWorldJudge(t *testing.T) {
	w := chain{hops: 4, router: func(ttl int, r *simRouter) { r.Silent = ttl == 2 }}.build(1)
	right := func() path {
		return path{[]hop{{ttl: 1, addrs: []netip.Addr{routerAddr(false, 1)}}, {ttl: 2},
			{ttl: 3, addrs: []netip.Addr{routerAddr(false, 3)}}, {ttl: 4, addrs: []netip.Addr{w.dst}}}}
	}
	if wrong := w.judge(right()); wrong != "" {
		t.Errorf("the right path: %s", wrong)
	}
	for name, change := range map[string]func(*path){
		"a hop too many":             func(p *path) { p.hop(5).add(w.dst) },
		"the destination too early":  func(p *path) { p.hops[2].addrs = []netip.Addr{w.dst} },
		"a hop is missing":           func(p *path) { p.hops[0].addrs = nil },
		"a hop is another":           func(p *path) { p.hops[0].addrs = []netip.Addr{routerAddr(false, 9)} },
		"two where one is":           func(p *path) { p.hops[0].add(routerAddr(false, 9)) },
		"a silent hop speaks":        func(p *path) { p.hops[1].add(routerAddr(false, 2)) },
		"the destination is missing": func(p *path) { p.hops = p.hops[:3] },
		"something beyond":           func(p *path) { p.hop(6).add(routerAddr(false, 9)) },
	} {
		p := right()
		change(&p)
		if w.judge(p) == "" {
			t.Errorf("%s: taken for right", name)
		}
	}
	silent := chain{hops: 2, silentDst: true}.build(1)
	p := path{[]hop{{ttl: 1, addrs: []netip.Addr{routerAddr(false, 1)}}, {ttl: 2}}}
	if wrong := silent.judge(p); wrong != "" {
		t.Errorf("a silent destination: %s", wrong)
	}
	p.hops[1].add(silent.dst)
	if silent.judge(p) == "" {
		t.Error("a silent destination that answers is taken for right")
	}
}
