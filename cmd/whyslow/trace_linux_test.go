package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whyslow/whyslow/internal/netlab/labtest"
	"github.com/whyslow/whyslow/internal/netlab/servers"
	"github.com/whyslow/whyslow/internal/simnet"
	"github.com/whyslow/whyslow/trace"
)

// linesOf reads what --format jsonl wrote.
func linesOf(t *testing.T, b []byte) []trace.Line {
	t.Helper()
	var lines []trace.Line
	for line := range bytes.Lines(b) {
		var l trace.Line
		if err := json.Unmarshal(line, &l); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		lines = append(lines, l)
	}
	return lines
}

// A trace is seen while it runs, and a recording shows the same as the trace
// did.
func TestTraceInEveryForm(t *testing.T) {
	l := newLab(t, 20*time.Millisecond)
	dir := t.TempDir()
	file := func(ext string) string { return filepath.Join(dir, "r."+ext) }
	args := []string{"trace", "-n", "-c", "5", "-i", "0.05", "--samples", "20", "--format", "jsonl", webAddr.String()}
	for _, ext := range []string{"jsonl", "json", "csv", "mtr", "md", "html", "txt"} {
		args = append(args, "-o", file(ext))
	}
	p := l.run(t, args...)
	if p.status() != 0 {
		t.Fatalf("status %d\n%s", p.status(), &p.err)
	}
	lines := linesOf(t, p.out.Bytes())
	last := lines[len(lines)-1]
	if lines[0].Kind != trace.Begin || last.Kind != trace.ResultLine || last.Result == nil || !last.Result.Reached {
		t.Fatalf("from %q to %q", lines[0].Kind, last.Kind)
	}
	replies := 0
	for _, line := range lines {
		if line.Kind == trace.Replied {
			replies++
		}
	}
	if replies < 4*5 {
		t.Errorf("%d answers of 4 hops in 5 rounds", replies)
	}
	if h := last.Result.Hops[3]; h.Sent < 5 || h.Loss != 0 {
		t.Errorf("the destination got %d probes and lost %v", h.Sent, h.Loss)
	}
	saved := func(ext string) string {
		b, err := os.ReadFile(file(ext))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if n := len(linesOf(t, []byte(saved("jsonl")))); n != len(lines) {
		t.Errorf("%d lines in the file, %d on stdout", n, len(lines))
	}
	shown := l.run(t, "show", file("jsonl"), "--json")
	if diff := cmp.Diff(saved("json"), shown.out.String()); diff != "" {
		t.Errorf("a recording shows another trace (-trace +shown):\n%s", diff)
	}
	rows, err := csv.NewReader(strings.NewReader(saved("csv"))).ReadAll()
	if err != nil || len(rows) != 5 {
		t.Errorf("CSV: %v, %d rows", err, len(rows))
	}
	if block := saved("mtr"); !strings.Contains(block, "\n  4.|-- 203.0.113.80 ") {
		t.Errorf("no mtr block:\n%s", block)
	}
}

// Whoever ends a long trace, or loses the end of its recording, has what came
// before.
func TestInterruptedTrace(t *testing.T) {
	l := newLab(t, 20*time.Millisecond)
	recording := filepath.Join(t.TempDir(), "r.jsonl")
	p := l.start(t, "trace", "-n", "-c", "100000", "-i", "0.02", "--format", "jsonl", "-o", recording, webAddr.String())
	eventually(t, "a tenth round", func() bool {
		sent := uint64(0)
		if err := l.Model(func(n *simnet.Net) { sent = n.Stats().Sent }); err != nil {
			t.Fatal(err)
		}
		return sent > 80 // probes and the answers of hosts
	})
	if took := p.interrupt(t); took > promptly || p.status() != 130 {
		t.Errorf("ended after %v with status %d\n%s", took, p.status(), &p.err)
	}
	b, err := os.ReadFile(recording)
	if err != nil {
		t.Fatal(err)
	}
	lines := linesOf(t, b)
	if last := lines[len(lines)-1]; last.Kind != trace.ResultLine || !last.Result.Reached ||
		!slices.ContainsFunc(last.Result.Warnings, func(w string) bool { return strings.HasPrefix(w, "interrupted: ") }) {
		t.Errorf("the recording ends with %q: %+v", last.Kind, last.Result)
	}
	cut := b[:bytes.LastIndexByte(bytes.TrimSpace(b), '\n')+1] // as a full disk or a crash leaves it
	if err := os.WriteFile(recording, cut, 0o600); err != nil {
		t.Fatal(err)
	}
	shown := l.run(t, "show", recording)
	if shown.status() != 0 || !strings.Contains(shown.out.String(), "reached at hop 4") {
		t.Errorf("status %d\n%s%s", shown.status(), &shown.out, &shown.err)
	}
}

// traceJSON runs a trace for its JSON, without any capability if bare.
func traceJSON(t *testing.T, l *lab, bare bool, args ...string) (*trace.Result, int) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args = append([]string{exe, "trace", "-n", "--json", "--resolv-conf", l.conf}, args...)
	if bare {
		args = append([]string{"setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"}, args...)
	}
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	res := new(trace.Result)
	if err := json.Unmarshal(out, res); err != nil {
		t.Fatalf("no valid JSON: %v\n%s", err, out)
	}
	return res, cmd.ProcessState.ExitCode()
}

// The last hop of a trace by TCP showed the time of the SYN that the kernel
// sends again after a second (mtr#196).
func TestTCPLastHopIsNotASecondLate(t *testing.T) {
	labtest.Need(t, "setpriv")
	l := newLab(t, 20*time.Millisecond)
	l.serveHTTP(t, servers.HTTPConfig{})
	for _, bare := range []bool{false, true} {
		for _, port := range []string{"80", "81"} { // one that accepts, one that refuses
			res, _ := traceJSON(t, l, bare, "-T", "-p", port, "--samples", "0", "--no-mtu", webAddr.String())
			if res.HopCount == nil || *res.HopCount != 4 {
				t.Errorf("bare=%v, port %s: reached at %v", bare, port, res.HopCount)
				continue
			}
			if last := res.Hops[3].Replies[0]; last.Min.Duration() < 19*time.Millisecond || last.Max.Duration() > 500*time.Millisecond {
				t.Errorf("bare=%v, port %s: the last hop answers within %v to %v, not 20 ms", bare, port, last.Min, last.Max)
			}
		}
	}
}

// What cannot be reached gives JSON like anything else (mtr#190, mtr#283).
func TestUnreachableGivesValidJSON(t *testing.T) {
	labtest.Need(t, "setpriv")
	l := newLab(t, 20*time.Millisecond)
	nobody := netip.MustParseAddr("203.0.113.99") // no route behind the first router
	if err := l.Model(func(n *simnet.Net) { n.Route(l.routers[1], netip.PrefixFrom(nobody, 32), simnet.Nowhere) }); err != nil {
		t.Fatal(err)
	}
	for _, bare := range []bool{false, true} {
		for _, how := range []string{"-I", "-U", "-T"} {
			res, status := traceJSON(t, l, bare, how, nobody.String())
			if res.Reached || res.HopCount != nil || len(res.Hops) == 0 || res.Schema != trace.Schema || status != 0 && status != 4 {
				t.Errorf("bare=%v %s: status %d, %+v", bare, how, status, res)
			}
		}
	}
}

// Several hosts are traced at once, and one that is wrong keeps no other from
// being shown.
func TestTraceSeveral(t *testing.T) {
	l := newLab(t, 20*time.Millisecond)
	l.serveDNS(t, zones())
	recording := filepath.Join(t.TempDir(), "r.jsonl")
	p := l.run(t, "trace", "-n", "--json", "-o", recording, webAddr.String(), "nosuchhost.invalid", resolverAddr.String())
	if p.status() != 4 || !strings.Contains(p.err.String(), "resolving nosuchhost.invalid: REFUSED") {
		t.Errorf("status %d\n%s", p.status(), &p.err)
	}
	objects := func(b []byte) (addrs []string) {
		for d := json.NewDecoder(bytes.NewReader(b)); d.More(); {
			var res trace.Result
			if err := d.Decode(&res); err != nil {
				t.Fatal(err)
			}
			if !res.Reached || res.Destination == nil || res.PMTU == nil {
				t.Errorf("%v: reached %v, sampled %v, MTU %v", res.Target.Addr, res.Reached, res.Destination, res.PMTU)
			}
			addrs = append(addrs, res.Target.Addr.String())
		}
		return addrs
	}
	want := []string{webAddr.String(), resolverAddr.String()}
	if diff := cmp.Diff(want, objects(p.out.Bytes())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	objectsFile := filepath.Join(t.TempDir(), "r.json")
	if err := os.WriteFile(objectsFile, p.out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, saved := range []string{recording, objectsFile} {
		shown := l.run(t, "show", saved, "--json")
		if diff := cmp.Diff(p.out.String(), shown.out.String()); diff != "" {
			t.Errorf("%s shows other traces (-traces +shown):\n%s", filepath.Ext(saved), diff)
		}
	}
}

func TestParallelPathsInEveryForm(t *testing.T) {
	l := newLab(t, 20*time.Millisecond)
	dir := t.TempDir()
	file := func(ext string) string { return filepath.Join(dir, "r."+ext) }
	args := []string{"trace", "-n", "--paths", "16", "--no-mtu", "--samples", "0", "--json", webAddr.String()}
	wants := map[string]string{"dot": "digraph path {", "txt": "Parallel paths", "md": "Parallel paths", "html": "Parallel paths"}
	for ext := range wants {
		args = append(args, "-o", file(ext))
	}
	p := l.run(t, args...)
	if p.status() != 0 {
		t.Fatalf("status %d\n%s", p.status(), &p.err)
	}
	var res trace.Result
	if err := json.Unmarshal(p.out.Bytes(), &res); err != nil {
		t.Fatal(err)
	}
	if res.Paths == nil || !res.Paths.Confirmed || len(res.Paths.Links) != *res.HopCount || len(res.Paths.Reading) == 0 {
		t.Errorf("paths %+v", res.Paths)
	}
	for ext, want := range wants {
		b, err := os.ReadFile(file(ext))
		if err != nil || !strings.Contains(string(b), want) || !strings.Contains(string(b), webAddr.String()) {
			t.Errorf("%s: %v, no %q in\n%s", ext, err, want, b)
		}
	}
}
