package render_test

import (
	"bytes"
	"encoding/csv"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/whyslow/whyslow/internal/millis"
	"github.com/whyslow/whyslow/internal/wire"
	"github.com/whyslow/whyslow/reports/render"
	"github.com/whyslow/whyslow/trace"
)

// labelled is a path with everything that a ticket may show.
func labelled() *trace.Result {
	ms := func(f float64) millis.Value { return millis.Of(time.Duration(f * float64(time.Millisecond))) }
	back, mtu := 3, 1400
	first := trace.Replier{
		Addr: netip.MustParseAddr("192.0.2.1"), Name: "gw.example.net", Sent: 10, Received: 10, ReplyTTL: 64, ICMP: "time exceeded",
		Min: ms(0.4), Median: ms(0.5), Mean: ms(0.62), P95: ms(1), Max: ms(1.2), StdDev: ms(0.2), Jitter: ms(0.1), Last: ms(0.5),
	}
	second := trace.Replier{
		Addr: netip.MustParseAddr("198.51.100.9"), Name: "=HYPERLINK(\"http://evil.example\")", Sent: 4, Received: 4, ReplyTTL: 253, HopsBack: &back,
		Min: ms(10), Median: ms(11), Mean: ms(11.1), P95: ms(13), Max: ms(13), StdDev: ms(1.2), Jitter: ms(2), Last: ms(10.5), ICMP: "time exceeded",
		Labels: []wire.Label{{Value: 16004, TC: 2, TTL: 1}, {Value: 24, Bottom: true, TTL: 1}},
		AS:     &trace.AS{Number: 64500, Name: "EXAMPLE, Inc."},
	}
	third := second
	third.Addr, third.Name, third.AS, third.Labels = netip.MustParseAddr("198.51.100.10"), "", nil, nil
	return &trace.Result{
		Started: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Method: "icmp", FlowStable: true,
		Target: trace.Target{Name: "www.example.com", Addr: netip.MustParseAddr("203.0.113.80")},
		Hops: []trace.Hop{
			{TTL: 1, Sent: 10, Received: 10, Replies: []trace.Replier{first}},
			{TTL: 2, Sent: 10, Silent: true, Loss: 1},
			{TTL: 3, Sent: 10, Received: 8, Loss: 0.2, MTU: &mtu, Replies: []trace.Replier{second, third}},
		},
		Reading: []trace.Sentence{{Rule: "R4", Text: "hop 2 answers no probe, but what lies behind does: silent, not broken"}},
	}
}

func TestTraceCSV(t *testing.T) {
	out := single(t, render.TraceForms(), "csv", labelled())
	rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 5 {
		t.Fatalf("%d rows", len(rows))
	}
	field := func(row int, name string) string {
		for i, head := range rows[0] {
			if head == name {
				return rows[row][i]
			}
		}
		t.Fatalf("no column %q", name)
		return ""
	}
	for _, want := range []struct {
		row         int
		name, value string
	}{
		{1, "ttl", "1"}, {1, "median_ms", "0.500"}, {1, "mtu", ""}, {1, "hops_back", ""}, {1, "reply_ttl", "64"},
		{2, "addr", ""}, {2, "loss", "1"}, {2, "min_ms", ""}, {2, "sent", "10"},
		{3, "labels", "16004 24"}, {3, "as", "64500"}, {3, "as_name", "EXAMPLE, Inc."}, {3, "mtu", "1400"}, {3, "hops_back", "3"},
		{4, "addr", "198.51.100.10"}, {4, "loss", "0.2"}, {4, "target", "www.example.com"},
	} {
		if got := field(want.row, want.name); got != want.value {
			t.Errorf("row %d, %s: %q, want %q", want.row, want.name, got, want.value)
		}
	}
	// A spreadsheet runs what begins with = + - or @.
	if got := field(3, "name"); !strings.HasPrefix(got, "'=") {
		t.Errorf("a name is a formula: %q", got)
	}
}

func TestMTRBlock(t *testing.T) {
	const want = `Start: 2026-01-02T03:04:05+0000
HOST: -                                                           Loss%   Snt   Last   Avg  Best  Wrst StDev
  1. AS???     gw.example.net (192.0.2.1)                          0.0%    10    0.5   0.6   0.4   1.2   0.2
  2. AS???     ???                                               100.0%    10      -     -     -     -     -
  3. AS64500   =HYPERLINK("http://evil.example") (198.51.100.9)   20.0%    10   10.5  11.1  10.0  13.0   1.2
    |   +-- [MPLS: Lbl 16004 TC 2 S 0 TTL 1]
    |   +-- [MPLS: Lbl 24 TC 0 S 1 TTL 1]
     AS???     198.51.100.10
# to www.example.com (203.0.113.80) by icmp
# R4 hop 2 answers no probe, but what lies behind does: silent, not broken
`
	if got := single(t, render.TraceForms(), "mtr", labelled()); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	var named bytes.Buffer
	if err := render.MTR(&named, labelled(), render.Options{Host: "ops\x1b1"}); err != nil || !strings.Contains(named.String(), "\nHOST: ops\\x1b1 ") {
		t.Errorf("HOST is not the host that measured: %v\n%s", err, named.String())
	}
	plain := labelled()
	plain.Hops[2].Replies[0].AS = nil
	if got := single(t, render.TraceForms(), "mtr", plain); !strings.Contains(got, "\n  1.|-- gw.example.net (192.0.2.1) ") {
		t.Errorf("without AS numbers:\n%s", got)
	}
}

func TestTraceFormsByName(t *testing.T) {
	for name, want := range map[string]string{"csv": "target,", "MTR": "Start: "} {
		fn, err := render.TraceForms().ByExtension("ticket." + name)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := fn(&b, labelled(), render.Options{}); err != nil || !strings.HasPrefix(b.String(), want) {
			t.Errorf("%s: %v, %q", name, err, b.String())
		}
	}
	if _, err := render.PMTUForms().ByName("csv"); err == nil || !strings.Contains(err.Error(), "want text, json, markdown or html") {
		t.Errorf("a path MTU as CSV: %v", err)
	}
}

// What the probes met on their way stands at the hop that first saw it.
func TestPathNotes(t *testing.T) {
	res := labelled()
	left := 3
	res.Hops[0].Replies[0].Quote = &trace.Quote{TTL: &left}
	res.NAT = &trace.Place{TTL: 1}
	res.MSSClamp = &trace.MSSClamp{Place: trace.Place{TTL: 3}, From: 1460, To: 1360}
	res.TOSChange = &trace.TOSChange{Place: trace.Place{TTL: 3}, From: 184, To: 1}
	var b bytes.Buffer
	if err := render.TraceForms().Text(&b, res, render.Options{Width: 200, Verbose: true}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"behind NAT, TTL 3 left", "MPLS 16004/24, MSS clamped 1460→1360, DSCP 46→0, ECN 0→1", "AS64500 EXAMPLE, Inc.", "jitter", "10/10",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), "p95") {
		t.Errorf("a 95th percentile of ten:\n%s", b.String())
	}
}

// A number stays with its unit at the end of a line.
func TestNoUnitBeginsALine(t *testing.T) {
	res := labelled()
	res.Reading = nil
	for n := range 60 {
		text := strings.Repeat("x", n) + " loses 22 % (95 % interval 12 % to 40 %) and takes 416 ms, 3 s and 1500 bytes"
		res.Reading = append(res.Reading, trace.Sentence{Rule: "R2", Text: text})
	}
	out := single(t, render.TraceForms(), "text", res)
	for line := range strings.Lines(out) {
		for _, unit := range []string{"%", "ms", "s ", "bytes"} {
			if strings.HasPrefix(strings.TrimSpace(line), unit) {
				t.Errorf("a line begins with a unit: %q", line)
			}
		}
	}
}
