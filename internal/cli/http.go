package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/net/http/httpguts"

	"github.com/whyslow/whyslow/httpcheck"
	"github.com/whyslow/whyslow/internal/diagnose"
	"github.com/whyslow/whyslow/reports/render"
)

type httpOptions struct {
	common
	method         string
	headers        []header
	userAgent      string
	head           bool
	samples        int
	perConn        int
	maxRequests    int
	maxRedirects   int
	connectTimeout time.Duration
	http1          bool
	noControls     bool
}

func newHTTP(env *Env) *cobra.Command {
	var o httpOptions
	cmd := &cobra.Command{
		Use:   "http URL [FLAGS]",
		Short: "Time an HTTP exchange, cold and warm, phase by phase",
		Long: `Fetches a URL several times, each on a fresh connection and then again on the
same one, and times every phase: resolve, connect, tls, send, wait, receive.
Each redirect is timed apart. Control requests (a small static file, a path that
does not exist) tell the application from the server, and the kernel's TCP
figures tell the network from both. A bare host means https, then http if port
443 refuses or no TLS is spoken.`,
		Example: `  whyslow http https://www.example.com/
  whyslow http www.example.com --samples 10           ten fresh connections
  whyslow http -X POST -H 'Accept: text/html' https://www.example.com/search
  whyslow http -k https://192.0.2.7:8443/ --json   any certificate, for a script`,
		Args: oneArg("URL", "whyslow http https://www.example.com/"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runHTTP(cmd.Context(), env, &o, args[0])
		},
	}
	fs := cmd.Flags()
	fs.VarP(methodValue{textValue{&o.method, "METHOD"}}, "request", "X", "request METHOD (default GET)")
	fs.BoolVarP(&o.head, "head", "I", false, "request headers only (HEAD)")
	fs.VarP(headerValue{&o.headers}, "header", "H", "send this header; repeatable")
	fs.VarP(textValue{&o.userAgent, "NAME"}, "user-agent", "A", "send this User-Agent NAME")
	fs.Var(countValue{&o.samples, 1, 100}, "samples", "fresh connections (default 5)")
	fs.Var(countValue{&o.perConn, 1, 100}, "per-connection", "requests on each of them (default 3)")
	fs.Var(countValue{&o.maxRequests, 1, 1000}, "max-requests", "bound on all requests, controls and redirects included (default 25, or what --samples needs)")
	o.maxRedirects = 10
	fs.Var(countValue{&o.maxRedirects, 0, 50}, "max-redirs", "redirects to follow; 0 is none")
	fs.Var(newDuration(&o.connectTimeout, 10*time.Millisecond, time.Hour), "connect-timeout", "longest wait for a connection (default 10)")
	fs.BoolVar(&o.http1, "http1.1", false, "do not offer HTTP/2")
	fs.BoolVar(&o.noControls, "no-controls", false, "send no control requests")
	o.addTo(fs, letters{insecure: "k"})
	return cmd
}

func runHTTP(ctx context.Context, env *Env, o *httpOptions, arg string) error {
	if err := o.check(); err != nil {
		return err
	}
	t, err := o.target(ctx, arg)
	if err != nil {
		return err
	}
	opt, err := o.options()
	if err != nil {
		return err
	}
	var local error // what these flags do not permit
	opt.Resolver = func(ctx context.Context, host string) ([]netip.Addr, error) {
		addrs, err := o.resolve(ctx, host)
		if _, ours := errors.AsType[*statusError](err); ours && host == t.host {
			local = err
		}
		return addrs, err
	}
	p := newProgress(env, &o.common)
	defer p.done()
	res, err := measure(ctx, &o.common, "fetching "+t.given, func(ctx context.Context) (*httpcheck.Result, error) {
		res, err := fetch(ctx, p, opt, t)
		if local != nil {
			return nil, local
		}
		return res, err
	})
	p.done()
	if err != nil {
		return err
	}
	redactHTTP(res)
	if err := deliver(env, &o.common, render.HTTPForms(), res); err != nil {
		return err
	}
	if res.Failure != nil && !o.quiet {
		if r := o.remedy(res.Failure, t); r != "" {
			fmt.Fprintln(env.Err, clean(r))
		}
	}
	return outcome(ctx, res.Failure != nil)
}

// remedy says what to do about a URL that could not be fetched, "" where the
// failure says it all.
func (c *common) remedy(f *httpcheck.Failure, t target) string {
	switch f.Kind {
	case "nxdomain", "dns":
		if lacks := c.lacking(t.host); lacks != "" && strings.Contains(f.Text, noAddress) {
			return lacks
		}
		return "whyslow dns " + t.host + " shows each step of the resolution"
	case "refused":
		return "nothing listens there: check the port, and that the server runs"
	case "unreachable", "timeout":
		return fmt.Sprintf("whyslow trace -T -p %d %s shows how far packets come", t.port, t.host)
	case "certificate":
		return "--cacert FILE trusts a private authority; -k, --insecure measures in spite of the certificate"
	case "tls", "protocol":
		if plain := withoutTLS(t.url); plain != "" {
			return "if the server speaks plain HTTP on that port: whyslow http " + plain
		}
	}
	return ""
}

// withoutTLS is the same address over plain HTTP, fit to be shown; "" if it is
// that already.
func withoutTLS(url string) string {
	rest, ok := strings.CutPrefix(diagnose.Redacted(url), "https://")
	if !ok {
		return ""
	}
	rest, _, _ = strings.Cut(rest, "?") // masked, so no use
	return "http://" + rest
}

// fetch measures the target, over plain http if it is a bare host that speaks
// no TLS or refuses port 443.
func fetch(ctx context.Context, p *progress, opt httpcheck.Options, t target) (*httpcheck.Result, error) {
	p.set("fetching %s", diagnose.Redacted(t.url))
	opt.URL = t.url
	res, err := httpcheck.Run(ctx, opt)
	if err != nil || !t.bare || !otherwise(res.Failure, t) {
		return res, err
	}
	t = t.plainHTTP()
	p.set("fetching %s", diagnose.Redacted(t.url))
	opt.URL = t.url
	plain, err := httpcheck.Run(ctx, opt)
	if err != nil || plain.Failure == nil {
		return plain, err
	}
	return res, nil // neither answers: speak of the one that was meant
}

// otherwise reports whether a failure leaves hope for plain http.
func otherwise(f *httpcheck.Failure, t target) bool {
	return f != nil && f.Kind == "refused" && !t.portGiven || diagnose.WithoutTLS(f)
}

func (o *httpOptions) options() (httpcheck.Options, error) {
	opt := httpcheck.Options{
		Method: o.method,
		Family: httpcheck.Family(o.targetFamily()), Source: o.source, Interface: o.iface,
		Insecure: o.insecure, HTTP1: o.http1, NoControls: o.noControls,
		Cold: o.samples, PerConnection: o.perConn, MaxRequests: o.maxRequests,
		MaxRedirects: o.maxRedirects, ConnectTimeout: o.connectTimeout,
	}
	if o.head {
		if o.method != "" {
			return opt, usagef("-I, --head and -X, --request exclude each other")
		}
		opt.Method = http.MethodHead
	}
	opt.Header = headersOf(o.headers)
	if o.userAgent != "" {
		if !httpguts.ValidHeaderFieldValue(o.userAgent) {
			return opt, usagef("-A, --user-agent: holds a control character")
		}
		opt.Header.Set("User-Agent", o.userAgent)
	}
	if o.maxRedirects == 0 {
		opt.MaxRedirects = -1
	}
	if opt.MaxRequests == 0 && (o.samples > 0 || o.perConn > 0) {
		opt.MaxRequests = max(25, cmp.Or(o.samples, 5)*cmp.Or(o.perConn, 3)+10)
	}
	if o.samples > 0 {
		// The user's count, not the clock, says when it is enough.
		opt.Budget = time.Hour
	}
	var err error
	opt.RootCAs, err = o.pool()
	return opt, err
}

// headersOf returns the headers.
func headersOf(fields []header) http.Header {
	h := http.Header{}
	for _, f := range fields {
		h.Add(f.name, f.value)
	}
	return h
}
