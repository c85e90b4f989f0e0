package cli

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/net/http/httpguts"

	"github.com/whyslow/whyslow/httpcheck"
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
443 refuses.`,
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
	fs.StringVarP(&o.method, "request", "X", "", "request `METHOD` (default GET)")
	fs.BoolVarP(&o.head, "head", "I", false, "request headers only (HEAD)")
	fs.VarP(headerValue{&o.headers}, "header", "H", "send this header; repeatable")
	fs.StringVarP(&o.userAgent, "user-agent", "A", "", "send this User-Agent `NAME`")
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
	t, err := parseTarget(arg)
	if err != nil {
		return err
	}
	opt, err := o.options()
	if err != nil {
		return err
	}
	p := newProgress(env, &o.common)
	defer p.done()
	res, err := measure(ctx, &o.common, "fetching "+t.given, func(ctx context.Context) (*httpcheck.Result, error) {
		return fetch(ctx, p, opt, t)
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
		if r := remedy(res.Failure, t); r != "" {
			fmt.Fprintln(env.Err, clean(r))
		}
	}
	return outcome(ctx, res.Failure != nil)
}

// remedy says what to do about a URL that could not be fetched, "" where the
// failure says it all.
func remedy(f *httpcheck.Failure, t target) string {
	switch f.Kind {
	case "nxdomain", "dns":
		return "whyslow dns " + t.host + " shows each step of the resolution"
	case "refused":
		return "nothing listens there: check the port, and that the server runs"
	case "unreachable", "timeout":
		return "whyslow trace -T " + t.given + " shows how far packets come"
	case "certificate":
		return "--cacert FILE trusts a private authority; -k, --insecure measures in spite of the certificate"
	case "tls", "protocol":
		if strings.HasPrefix(t.url, "https://") {
			plain := "http://" + strings.TrimPrefix(t.url, "https://")
			return "if the server speaks plain HTTP on that port: whyslow http " + plain
		}
	}
	return ""
}

// fetch measures the target, over plain http if it is a bare host that refuses
// port 443.
func fetch(ctx context.Context, p *progress, opt httpcheck.Options, t target) (*httpcheck.Result, error) {
	p.set("fetching %s", t.url)
	opt.URL = t.url
	res, err := httpcheck.Run(ctx, opt)
	if err != nil || !t.bare || res.Failure == nil || res.Failure.Kind != "refused" {
		return res, err
	}
	t = t.plainHTTP()
	p.set("fetching %s", t.url)
	opt.URL = t.url
	plain, err := httpcheck.Run(ctx, opt)
	if err != nil || plain.Failure == nil {
		return plain, err
	}
	return res, nil // both refuse: speak of the one that was meant
}

func (o *httpOptions) options() (httpcheck.Options, error) {
	opt := httpcheck.Options{
		Method: o.method,
		Family: httpcheck.Family(o.family()), Source: o.source, Interface: o.iface,
		Insecure: o.insecure, HTTP1: o.http1, NoControls: o.noControls,
		Cold: o.samples, PerConnection: o.perConn, MaxRequests: o.maxRequests,
		MaxRedirects: o.maxRedirects, ConnectTimeout: o.connectTimeout,
		Resolver: func(ctx context.Context, host string) ([]netip.Addr, error) { return o.resolve(ctx, host) },
	}
	if o.head {
		if o.method != "" {
			return opt, usagef("-I, --head and -X, --request exclude each other")
		}
		opt.Method = http.MethodHead
	}
	var err error
	if opt.Header, err = (httpRequest{opt.Method, o.headers}).header(); err != nil {
		return opt, err
	}
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
		opt.MaxRequests = max(25, orElse(o.samples, 5)*orElse(o.perConn, 3)+10)
	}
	if o.samples > 0 {
		// The user's count, not the clock, says when it is enough.
		opt.Budget = time.Hour
	}
	opt.RootCAs, err = o.pool()
	return opt, err
}

func orElse(n, other int) int {
	if n == 0 {
		return other
	}
	return n
}

// httpRequest is the part of a request that -X and -H make.
type httpRequest struct {
	method  string
	headers []header
}

// header checks the method and returns the headers.
func (r httpRequest) header() (http.Header, error) {
	// A method is a token, as a header's name is.
	if r.method != "" && !httpguts.ValidHeaderFieldName(r.method) {
		return nil, usagef("-X, --request: %q is no method (RFC 9110, 9.1)", r.method)
	}
	h := http.Header{}
	for _, f := range r.headers {
		h.Add(f.name, f.value)
	}
	return h, nil
}
