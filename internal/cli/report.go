package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/whyslow/whyslow/internal/diagnose"
	"github.com/whyslow/whyslow/reports"
	"github.com/whyslow/whyslow/reports/render"
)

type reportOptions struct {
	common
	budget  string
	failOn  string
	method  string
	headers []header
}

func newReport(env *Env) *cobra.Command {
	var o reportOptions
	cmd := &cobra.Command{
		Use:   "report URL [FLAGS]",
		Short: "Say why a URL is slow: measure everything, judge, write the report",
		Long: `Measures DNS, the path and the HTTP exchange of a URL side by side, runs the
control experiments that could change the verdict, and says which of network,
DNS and server makes the response slow, where, with what confidence and on what
evidence. A bare host means https, then http if port 443 refuses or no TLS is
spoken.`,
		Example: `  whyslow report https://www.example.com/
  whyslow report www.example.com -o incident.html -o incident.json
  whyslow report www.example.com --budget quick --json
  whyslow report www.example.com --fail-on critical --quiet     for cron and CI
  whyslow report -k --resolv-conf staging.conf https://shop.example.com/`,
		Args: oneArg("URL", "whyslow report https://www.example.com/"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runReport(cmd.Context(), env, &o, args[0])
		},
	}
	fs := cmd.Flags()
	o.budget = "normal"
	fs.Var(enumValue{&o.budget, []string{"quick", "normal", "deep"}}, "budget",
		"how much to ask: quick is 4 s and 25 requests, normal 10 s and 60, deep 60 s and 300; "+
			"what alone takes longer is waited for once, 30 s for an answer and 20 s of a body")
	fs.Var(enumValue{&o.failOn, []string{"warning", "critical", "inconclusive"}}, "fail-on",
		"exit 1 if a fault makes the response slow, 2 if it costs a second or more, 3 if the verdict is open; "+
			"the value is the least that counts, in this order")
	fs.VarP(methodValue{textValue{&o.method, "METHOD"}}, "request", "X", "request METHOD (default GET)")
	fs.VarP(headerValue{&o.headers}, "header", "H", "send this header; repeatable")
	o.addTo(fs, letters{insecure: "k"})
	return cmd
}

func runReport(ctx context.Context, env *Env, o *reportOptions, arg string) error {
	if err := o.check(); err != nil {
		return err
	}
	t, err := o.target(ctx, arg)
	if err != nil {
		return err
	}
	opt, err := o.options(env, t)
	if err != nil {
		return err
	}
	p := newProgress(env, &o.common)
	defer p.done()
	opt.Progress = func(e diagnose.Event) { p.set("%s: %s", e.Instrument, e.Text) }
	rep, err := measure(ctx, &o.common, "diagnosing "+t.given, func(ctx context.Context) (*reports.Report, error) {
		rep, err := diagnose.Run(ctx, opt)
		if err != nil {
			return nil, err
		}
		// Judged again, so that no place in the verdict quotes a secret.
		redactHTTP(rep.HTTP)
		rep.Verdict = reports.Judge(rep)
		o.advise(rep, t)
		return rep, o.unreached(rep)
	})
	p.done()
	if err != nil {
		return err
	}
	if err := deliver(env, &o.common, render.ReportForms(), rep); err != nil {
		return err
	}
	if err := outcome(ctx, rep.Verdict.Failed); err != nil {
		return err
	}
	return exit(o.failStatus(&rep.Verdict))
}

// unreached is the error of a report on a name that turned out to have no
// address which these flags permit to reach: the fault is the command line's.
func (o *reportOptions) unreached(rep *reports.Report) error {
	if !rep.Verdict.Failed || rep.DNS == nil || rep.DNS.Stub == nil {
		return nil
	}
	_, err := o.usable(rep.Target.Host, rep.DNS.Stub.Addrs)
	return err
}

// advise adds to a verdict what only the command line knows to do.
func (o *reportOptions) advise(rep *reports.Report, t target) {
	v := &rep.Verdict
	if !v.Failed {
		return
	}
	if rep.HTTP != nil && diagnose.WithoutTLS(rep.HTTP.Failure) {
		if plain := withoutTLS(rep.Target.URL); plain != "" {
			v.Next = append(v.Next, "if the server speaks plain HTTP on that port, try "+plain)
		}
	}
	if rep.DNS != nil && rep.DNS.Stub != nil && rep.DNS.Stub.Rcode == noAddress {
		if lacks := o.lacking(t.host); lacks != "" {
			v.Next = append(v.Next, lacks)
		}
	}
}

func (o *reportOptions) options(env *Env, t target) (diagnose.Options, error) {
	pool, err := o.pool()
	if err != nil {
		return diagnose.Options{}, err
	}
	return diagnose.Options{
		URL: t.forDiagnosis(), Budget: budgets(o.budget), Family: o.targetFamily(), ResolvConf: o.resolvConf,
		Method: o.method, Header: headersOf(o.headers), RootCAs: pool, Insecure: o.insecure,
		Source: o.source, Interface: o.iface, MaxTime: o.maxTime,
		Tool: reports.Tool{Name: "whyslow", Version: version(), Argv: redactArgv(env.Argv)},
	}, nil
}

func budgets(name string) diagnose.Budget {
	switch name {
	case "quick":
		return diagnose.Quick
	case "deep":
		return diagnose.Deep
	}
	return diagnose.Normal
}

// critical is the excess from which a fault counts as critical: about a second
// is what a person waits without losing the thread (Nielsen 1993, 5.5).
const critical = time.Second

// severity grades a verdict in the order of Nagios: 0 fine, 1 warning,
// 2 critical, 3 unknown.
func severity(v *reports.Verdict) int {
	if v.Layer == reports.Inconclusive {
		return statusInconclusive
	}
	if v.Layer == reports.None || !v.Slow {
		return statusOK
	}
	var excess float64
	for _, b := range v.Blame {
		excess += b.MS
	}
	if excess >= critical.Seconds()*1000 {
		return statusCritical
	}
	return statusWarning
}

// failStatus is the exit status that --fail-on asks for.
func (o *reportOptions) failStatus(v *reports.Verdict) int {
	least := map[string]int{"": statusInconclusive + 1, "warning": statusWarning,
		"critical": statusCritical, "inconclusive": statusInconclusive}[o.failOn]
	if s := severity(v); s >= least {
		return s
	}
	return statusOK
}
