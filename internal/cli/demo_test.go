package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whyslow/whyslow/internal/demo"
	"github.com/whyslow/whyslow/internal/netlab"
	"github.com/whyslow/whyslow/internal/netlab/labtest"
	"github.com/whyslow/whyslow/reports"
)

func outcomes() []demo.Outcome {
	truth := demo.Truth{Layer: reports.Network, Component: "loss", Where: "link 2-3"}
	verdict := func(l reports.Layer, c *string, where string, conf float64) *reports.Report {
		return &reports.Report{Schema: reports.Schema, Verdict: reports.Verdict{Layer: l, Component: c, Where: where, Confidence: conf}}
	}
	return []demo.Outcome{
		{Scenario: "a", Truth: truth, Seconds: 3.21, Report: verdict(reports.Network, component("loss"), "192.0.2.1 (hop 3), link 2-3", 0.91)},
		{Scenario: "b", Truth: truth, Seconds: 4, Report: verdict(reports.Network, component("latency"), "link 2-3", 0.6)},
		{Scenario: "c", Truth: truth, Seconds: 4, Report: verdict(reports.Server, component("tls"), hostile, 0.5)},
		{Scenario: "d", Truth: truth, Seconds: 4, Report: verdict(reports.Inconclusive, nil, "", 0.3)},
		{Scenario: "e", Truth: truth, NotRunnable: "no namespaces"},
	}
}

func TestDemoTable(t *testing.T) {
	var buf bytes.Buffer
	tab := &demoTable{w: &buf}
	tab.begin()
	for _, o := range outcomes() {
		if err := tab.row(o); err != nil {
			t.Fatal(err)
		}
	}
	if err := tab.end(); err != nil {
		t.Fatal(err)
	}
	golden(t, "demo_table.txt", buf.String())
}

func TestDemoArray(t *testing.T) {
	var buf bytes.Buffer
	d := &demonstration{}
	arr := &demoArray{w: &buf, write: d.writeOutcome}
	arr.begin()
	for _, o := range outcomes() {
		if err := arr.row(o); err != nil {
			t.Fatal(err)
		}
	}
	if err := arr.end(); err != nil {
		t.Fatal(err)
	}
	var back []struct {
		Scenario string
		Truth    struct{ Layer, Component, Where string }
		Report   *struct {
			Schema  string
			Verdict struct {
				Layer     string
				Component *string
				Blame     []any
			}
		}
	}
	if err := json.Unmarshal(buf.Bytes(), &back); err != nil {
		t.Fatalf("%v in %s", err, buf.String())
	}
	if len(back) != 5 || back[0].Scenario != "a" || back[0].Truth.Where != "link 2-3" || back[0].Report.Schema != reports.Schema {
		t.Errorf("got %+v", back)
	}
	if back[0].Report.Verdict.Blame == nil {
		t.Error("a list without elements is null, not []")
	}
	if back[3].Report.Verdict.Component != nil || back[4].Report != nil {
		t.Error("what is not known is not null")
	}
	if buf.Reset(); arr.end() != nil || buf.String() != "]\n" {
		t.Errorf("end writes %q", buf.String())
	}
}

func TestDemoList(t *testing.T) {
	var names []string
	for line := range strings.Lines(run(t, "demo", "--list").out) {
		names = append(names, strings.Fields(line)[0])
	}
	var want []string
	for _, s := range demo.Scenarios() {
		want = append(want, s.Name)
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, ok := demo.Find(firstScenario); !ok {
		t.Errorf("the default scenario %q does not exist", firstScenario)
	}
	a := run(t, "demo", "--list", "--json", "--seed", "1").out
	if b := run(t, "demo", "--list", "--json", "--seed", "2").out; a == b {
		t.Error("another seed builds the same faults")
	}
}

// The whole way: this program again, inside a network it makes.
func TestDemoRuns(t *testing.T) {
	if err := netlab.Permitted(); err != nil {
		labtest.Skip(t, err.Error())
	}
	t.Run("healthy", func(t *testing.T) {
		got := run(t, "demo", "healthy", "--budget", "quick", "--json", "--seed", "5")
		if got.status != statusOK {
			t.Fatalf("%+v", got)
		}
		var out demo.Outcome
		if err := json.Unmarshal([]byte(got.out), &out); err != nil {
			t.Fatalf("%v in %s", err, got.out)
		}
		if out.Scenario != "healthy" || out.Seed != 5 || out.Report == nil || out.Report.Verdict.Layer == "" || len(out.Report.HTTP.Samples) == 0 {
			t.Errorf("got %+v", out)
		}
	})
	t.Run("text", func(t *testing.T) {
		got := run(t, "demo", "dead-resolver", "--budget", "quick")
		for _, want := range []string{"truth      dns resolver-down at ", "verdict    ", "Evidence"} {
			if !strings.Contains(got.out, want) {
				t.Errorf("no %q in %s%s", want, got.out, got.err)
			}
		}
	})
}

// What the demo finds where there are no namespaces is chosen by the program,
// not by luck: a network fault is refused with the remedy.
func TestDemoWithoutNamespaces(t *testing.T) {
	s, ok := demo.Find("lossy-link")
	if !ok {
		t.Fatal("no scenario lossy-link")
	}
	var out bytes.Buffer
	env := Env{Out: &out}.withDefaults(nil)
	d := &demonstration{env: &env, o: &demoOptions{seed: 1, budget: "quick", common: common{format: formatText}}}
	err := d.one(context.Background(), s)
	if statusOf(err) != statusUnmeasured || !strings.Contains(fmt.Sprint(err), "whyslow doctor") || !strings.Contains(fmt.Sprint(err), "dead-resolver") {
		t.Errorf("got %v", err)
	}
	if out.Len() > 0 {
		t.Errorf("printed %q", out.String())
	}
}
