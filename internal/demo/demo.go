// Package demo diagnoses networks whose fault is known: it builds one, with a
// fault of a place and a size drawn from a seed, runs the whole report against
// it with the same code as against any host, and puts the verdict beside the
// truth.
//
// It is a demonstration, a labelled data set for the judge's confidence, and a
// test of everything at once. Nothing in the diagnosis knows that it runs here.
package demo

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/whyslow/whyslow/internal/diagnose"
	"github.com/whyslow/whyslow/reports"
)

// Truth is the fault that was really built in, in the words of a verdict.
type Truth struct {
	Layer     reports.Layer `json:"layer"`
	Component string        `json:"component"`
	Where     string        `json:"where"`
	// Story says what was built, for people.
	Story string `json:"story"`
}

// Scenario is a kind of fault. Its place and size come from the seed.
type Scenario struct {
	Name  string
	Title string // one line
	// Loopback says that the scenario needs no network of its own: its fault
	// lies in a DNS or web server, which may run on loopback.
	Loopback bool
	build    func(*plan)
}

// Outcome is a scenario that was run. Report is nil if it could not be.
type Outcome struct {
	Scenario string          `json:"scenario"`
	Seed     uint64          `json:"seed"`
	Truth    Truth           `json:"truth"`
	Report   *reports.Report `json:"report"`
	Seconds  float64         `json:"seconds"`
	// NotRunnable says why the scenario can't run on this host; empty if it did.
	NotRunnable string `json:"not_runnable,omitempty"`
}

// Right reports whether the verdict names the truth's layer and component.
func (o Outcome) Right() (layer, component bool) {
	if o.Report == nil {
		return false, false
	}
	v := o.Report.Verdict
	layer = v.Layer == o.Truth.Layer
	return layer, layer && v.Component != nil && *v.Component == o.Truth.Component
}

// Options say how to run scenarios.
type Options struct {
	Seed   uint64
	Budget diagnose.Budget
	// Progress is told what the diagnosis does. Nil means nobody.
	Progress func(diagnose.Event)
	Tool     reports.Tool
}

// Find returns the scenario of a name.
func Find(name string) (Scenario, bool) {
	for _, s := range Scenarios() {
		if s.Name == name {
			return s, true
		}
	}
	return Scenario{}, false
}

// Plan returns the truth that a scenario builds from a seed, without building
// anything.
func Plan(s Scenario, seed uint64) Truth { return newPlan(s, seed).truth }

// stage is a network that stands: the diagnosis's options to reach it.
type stage interface {
	options() diagnose.Options
	close() error
}

// RunInLab builds the scenario's network, which needs a process inside a lab
// (netlab.Enter, netlab.Main), diagnoses it and takes it down.
func RunInLab(ctx context.Context, s Scenario, o Options) (Outcome, error) {
	p := newPlan(s, o.Seed)
	st, err := newLabStage(ctx, p)
	if err != nil {
		return Outcome{}, fmt.Errorf("demo: building %s: %w", s.Name, err)
	}
	return perform(ctx, p, st, o)
}

// RunOnLoopback runs a scenario whose fault needs no network of its own, where
// the host permits no namespaces. Others give an Outcome that says so.
func RunOnLoopback(ctx context.Context, s Scenario, o Options) (Outcome, error) {
	p := newPlan(s, o.Seed)
	if !s.Loopback {
		return Outcome{Scenario: s.Name, Seed: o.Seed, Truth: p.truth,
			NotRunnable: "its fault lies in the network, and this host permits no network namespaces"}, nil
	}
	st, err := newLoopbackStage(ctx, p)
	if err != nil {
		return Outcome{}, fmt.Errorf("demo: building %s on loopback: %w", s.Name, err)
	}
	return perform(ctx, p, st, o)
}

func perform(ctx context.Context, p *plan, st stage, o Options) (out Outcome, err error) {
	defer func() {
		if cerr := st.close(); err == nil && cerr != nil {
			err = fmt.Errorf("demo: taking down %s: %w", p.scenario.Name, cerr)
		}
	}()
	d := st.options()
	d.Budget, d.Progress, d.Tool = o.Budget, o.Progress, o.Tool
	began := time.Now()
	rep, err := diagnose.Run(ctx, d)
	if err != nil {
		return Outcome{}, fmt.Errorf("demo: %s: %w", p.scenario.Name, err)
	}
	hideFile(rep, d.ResolvConf)
	seconds := math.Round(time.Since(began).Seconds()*100) / 100
	return Outcome{Scenario: p.scenario.Name, Seed: o.Seed, Truth: p.truth, Report: rep, Seconds: seconds}, nil
}

// hideFile says "the demo's own resolv.conf" where the report names the file:
// it is gone when the report is read.
func hideFile(rep *reports.Report, path string) {
	const own = "the demo's own resolv.conf"
	rep.Environment.Resolver = strings.ReplaceAll(rep.Environment.Resolver, path, own)
	if rep.DNS != nil {
		rep.DNS.Config.File = strings.ReplaceAll(rep.DNS.Config.File, path, own)
	}
}
