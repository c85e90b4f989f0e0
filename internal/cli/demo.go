package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/whyslow/whyslow/internal/demo"
	"github.com/whyslow/whyslow/internal/diagnose"
	"github.com/whyslow/whyslow/internal/netlab"
	"github.com/whyslow/whyslow/reports"
	"github.com/whyslow/whyslow/reports/render"
)

type demoOptions struct {
	common
	all    bool
	list   bool
	seed   uint64
	budget string
}

// firstScenario is what demo shows when not told what: the fault that other
// tools get wrong, a slow link behind a router that only answers slowly.
const firstScenario = "slow-link"

func newDemo(env *Env) *cobra.Command {
	var o demoOptions
	cmd := &cobra.Command{
		Use:   "demo [SCENARIO] [FLAGS]",
		Short: "Make a faulty network on this machine and diagnose it",
		Long: `Builds a network with a known fault between namespaces of this machine, with a
resolver and a web server in it, runs the same report against it as against any
URL, and shows the verdict beside the truth. It needs no internet, no packages,
and on Linux no root. The place and the size of the fault follow from the seed.
Where the host permits no namespaces, the scenarios whose fault lies in a server
run on loopback.`,
		Example: `  whyslow demo                       a slow link behind a slow-answering router
  whyslow demo --list                all scenarios
  whyslow demo dead-resolver         another one
  whyslow demo lossy-link --seed 7   the same fault elsewhere on the path
  whyslow demo --all --seed 3        every scenario: truth, verdict, confidence
  whyslow demo --all --json          the same with whole reports, for a script`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("%s: one scenario at a time, or --all", quoted(args[1]))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return runDemo(cmd.Context(), env, &o, args)
		},
	}
	fs := cmd.Flags()
	fs.BoolVar(&o.all, "all", false, "run every scenario and print a table")
	fs.BoolVar(&o.list, "list", false, "list the scenarios")
	o.seed = 1
	fs.Uint64Var(&o.seed, "seed", 1, "`N` that decides where the fault is and how large")
	o.budget = "normal"
	fs.Var(enumValue{&o.budget, []string{"quick", "normal", "deep"}}, "budget", "as for report")
	o.addOutput(fs)
	return cmd
}

func runDemo(ctx context.Context, env *Env, o *demoOptions, args []string) error {
	if err := o.check(); err != nil {
		return err
	}
	scenarios, err := o.choose(args)
	if err != nil {
		return err
	}
	if o.list {
		return unwritten(o.writeList(env.Out))
	}
	inside := netlab.Inside()
	refused := error(nil)
	if !inside {
		if refused = netlab.Permitted(); refused == nil {
			return enterLab(ctx, env)
		}
		if !o.quiet {
			fmt.Fprintf(env.Err, "whyslow demo: %s; only DNS and server faults can be shown, on loopback (whyslow doctor tells the remedy)\n", clean(refused.Error()))
		}
	}
	d := &demonstration{env: env, o: o, inside: inside}
	if o.all {
		return d.all(ctx, scenarios)
	}
	return d.one(ctx, scenarios[0])
}

// enterLab runs this same command line inside a lab's namespaces.
func enterLab(ctx context.Context, env *Env) error {
	// The child gets the user's signals itself and ends with what it knows;
	// terminating it when ctx ends would cut that short.
	status, err := netlab.Enter(context.WithoutCancel(ctx), netlab.EnterConfig{
		Args: env.Argv[1:], Stdin: env.In, Stdout: env.Out, Stderr: env.Err,
	})
	if err != nil {
		return failf("making the network: %w; whyslow doctor tells what is missing", err)
	}
	return exit(status)
}

// choose returns the scenarios to run.
func (o *demoOptions) choose(args []string) ([]demo.Scenario, error) {
	if o.all {
		if len(args) > 0 {
			return nil, usagef("--all and the scenario %q exclude each other", args[0])
		}
		if o.format == formatMarkdown || o.format == formatHTML {
			return nil, usagef("--format: with --all only text and json")
		}
		if len(o.outputs) > 0 {
			return nil, usagef("-o, --output: not with --all; redirect the output")
		}
		return demo.Scenarios(), nil
	}
	name := firstScenario
	if len(args) > 0 {
		name = args[0]
	}
	s, ok := demo.Find(name)
	if !ok {
		var names []string
		for _, s := range demo.Scenarios() {
			names = append(names, s.Name)
		}
		if near := nearest(names, name); near != "" {
			return nil, usagef("%q is no scenario; did you mean %s?", name, near)
		}
		return nil, usagef("%q is no scenario; there are %s", name, strings.Join(names, ", "))
	}
	return []demo.Scenario{s}, nil
}

func (o *demoOptions) writeList(w io.Writer) error {
	if o.format == formatJSON {
		type row struct {
			Name     string     `json:"name"`
			Title    string     `json:"title"`
			Loopback bool       `json:"loopback"`
			Truth    demo.Truth `json:"truth"`
		}
		var rows []row
		for _, s := range demo.Scenarios() {
			rows = append(rows, row{s.Name, s.Title, s.Loopback, demo.Plan(s, o.seed)})
		}
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(rows)
	}
	for _, s := range demo.Scenarios() {
		if _, err := fmt.Fprintf(w, "%-18s %s\n", s.Name, s.Title); err != nil {
			return err
		}
	}
	return nil
}

// demoGrace is the grace after Ctrl-C where a network must be taken down too.
const demoGrace = time.Second

// demonstration runs scenarios and shows them.
type demonstration struct {
	env    *Env
	o      *demoOptions
	inside bool
}

// run runs one scenario. ok is false if it was interrupted before there was
// anything to show.
func (d *demonstration) run(ctx context.Context, s demo.Scenario) (demo.Outcome, bool, error) {
	p := newProgress(d.env, &d.o.common)
	defer p.done()
	p.set("%s: building the network", s.Name)
	opt := demo.Options{
		Seed: d.o.seed, Budget: budgets(d.o.budget),
		Progress: func(e diagnose.Event) { p.set("%s: %s: %s", s.Name, e.Instrument, e.Text) },
		Tool:     reports.Tool{Name: "whyslow", Version: version(), Argv: redactArgv(d.env.Argv)},
	}
	type result struct {
		out demo.Outcome
		err error
	}
	r, ok := awaitFor(ctx, demoGrace, func(ctx context.Context) result {
		perform := demo.RunOnLoopback
		if d.inside {
			perform = demo.RunInLab
		}
		out, err := perform(ctx, s, opt)
		return result{out, err}
	})
	if !ok || r.err != nil && ctx.Err() != nil {
		return r.out, false, nil
	}
	return r.out, true, r.err
}

// one shows the truth, then the whole report.
func (d *demonstration) one(ctx context.Context, s demo.Scenario) error {
	out, ok, err := d.run(ctx, s)
	switch {
	case err != nil:
		return failf("%w", err)
	case !ok:
		return exit(statusInterrupted)
	case out.NotRunnable != "":
		return failf("%s: %s; whyslow doctor tells the remedy; these run on loopback: %s",
			s.Name, out.NotRunnable, strings.Join(loopbackNames(), ", "))
	}
	if d.o.format == formatText && !(d.o.quiet && len(d.o.outputs) > 0) {
		d.writeTruth(s, out)
	}
	if err := d.deliver(out); err != nil {
		return err
	}
	return outcome(ctx, false)
}

// deliver writes the report. As JSON, stdout has it within the outcome.
func (d *demonstration) deliver(out demo.Outcome) error {
	if d.o.format != formatJSON {
		return deliver(d.env, &d.o.common, render.ReportForms(), out.Report)
	}
	return unwritten(d.writeOutcome(d.env.Out, out), save(d.env, &d.o.common, render.ReportForms(), out.Report))
}

func loopbackNames() []string {
	var names []string
	for _, s := range demo.Scenarios() {
		if s.Loopback {
			names = append(names, s.Name)
		}
	}
	return names
}

func (d *demonstration) writeTruth(s demo.Scenario, out demo.Outcome) {
	w := d.env.Out
	fmt.Fprintf(w, "Demo %s (seed %d): %s\n\n", s.Name, out.Seed, s.Title)
	fmt.Fprintf(w, "  built in   %s\n", out.Truth.Story)
	fmt.Fprintf(w, "  truth      %s\n", pinned(string(out.Truth.Layer), out.Truth.Component, out.Truth.Where))
	v := &out.Report.Verdict
	fmt.Fprintf(w, "  verdict    %s, confidence %.2f: %s\n\n", verdictWords(v), v.Confidence, mark(out))
	fmt.Fprintf(w, "%s\n\n", strings.Repeat("-", min(d.env.Width, maxWidth)))
}

// pinned is "layer component at place".
func pinned(layer, component, where string) string {
	s := layer
	if component != "" {
		s += " " + component
	}
	if where != "" {
		s += " at " + where
	}
	return clean(s)
}

func verdictWords(v *reports.Verdict) string {
	return pinned(string(v.Layer), componentOf(v), v.Where)
}

func componentOf(v *reports.Verdict) string {
	if v.Component == nil {
		return ""
	}
	return *v.Component
}

// mark says how well a verdict meets the truth.
func mark(out demo.Outcome) string {
	layer, component := out.Right()
	switch {
	case component:
		return "right"
	case layer:
		return "right layer"
	case out.Report.Verdict.Layer == reports.Inconclusive:
		return "undecided"
	}
	return "wrong"
}

// all runs every scenario and prints a row as each is done.
func (d *demonstration) all(ctx context.Context, scenarios []demo.Scenario) error {
	var t table = &demoTable{w: d.env.Out}
	if d.o.format == formatJSON {
		t = &demoArray{w: d.env.Out, write: d.writeOutcome}
	}
	t.begin()
	for _, s := range scenarios {
		out, ok, err := d.run(ctx, s)
		if err != nil {
			return errors.Join(t.end(), failf("%w", err))
		}
		if !ok || ctx.Err() != nil {
			break
		}
		if err := t.row(out); err != nil {
			return unwritten(err)
		}
	}
	if err := t.end(); err != nil {
		return unwritten(err)
	}
	return outcome(ctx, false)
}

// writeOutcome writes one outcome as JSON, its report exactly as report --json
// would.
func (d *demonstration) writeOutcome(w io.Writer, o demo.Outcome) error {
	var report json.RawMessage = []byte("null")
	if o.Report != nil {
		var buf bytes.Buffer
		if err := render.JSON(&buf, o.Report, render.Options{}); err != nil {
			return err
		}
		report = slices.Clone(buf.Bytes())
	}
	type plain demo.Outcome
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(struct {
		plain
		Report json.RawMessage `json:"report"`
	}{plain(o), report})
}
