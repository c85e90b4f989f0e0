package apacheconf

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// Limits are how many requests the main server works on, and how long it keeps
// connections. Zero is unknown.
type Limits struct {
	// MPM is "event", "worker", "prefork" or empty.
	MPM               string `json:"mpm,omitempty"`
	MaxRequestWorkers int    `json:"max_request_workers,omitempty"`
	ThreadsPerChild   int    `json:"threads_per_child,omitempty"`
	ServerLimit       int    `json:"server_limit,omitempty"`

	KeepAlive            bool    `json:"keep_alive"`
	MaxKeepAliveRequests int     `json:"max_keep_alive_requests"` // 0 is no bound
	KeepAliveTimeoutMS   float64 `json:"keep_alive_timeout_ms"`
	TimeoutMS            float64 `json:"timeout_ms"`
	// HTTP2 says that some server offers it.
	HTTP2 bool `json:"http2"`
	// RemoteIP says that mod_remoteip takes the address from a header.
	RemoteIP bool `json:"remote_ip"`
}

// KeepAliveTimeout is how long an idle connection is kept.
func (l Limits) KeepAliveTimeout() time.Duration {
	return time.Duration(l.KeepAliveTimeoutMS * float64(time.Millisecond))
}

func (a *auditor) limits() {
	l := &a.Limits
	*l = Limits{KeepAlive: true, MaxKeepAliveRequests: 100, KeepAliveTimeoutMS: 5000, TimeoutMS: 60_000}
	for _, m := range []string{"event", "worker", "prefork"} {
		if a.Modules["mpm_"+m+"_module"] {
			l.MPM = m
		}
	}
	each(a.servers[0].directives, func(d *Directive, in []*Directive) {
		if len(d.Args) == 0 {
			return
		}
		number := func(to *int) {
			if n, err := strconv.Atoi(d.Args[0]); err == nil && n >= 0 {
				*to = n
			}
		}
		switch d.Name {
		case "maxrequestworkers", "maxclients":
			number(&l.MaxRequestWorkers)
		case "threadsperchild":
			number(&l.ThreadsPerChild)
		case "serverlimit":
			number(&l.ServerLimit)
		case "keepalive":
			l.KeepAlive = !strings.EqualFold(d.Args[0], "off") && d.Args[0] != "0"
		case "maxkeepaliverequests":
			number(&l.MaxKeepAliveRequests)
		case "keepalivetimeout":
			setDuration(&l.KeepAliveTimeoutMS, d.Args[0])
		case "timeout":
			setDuration(&l.TimeoutMS, d.Args[0])
		}
	})
	a.workers()
	for _, s := range a.servers {
		each(s.directives, func(d *Directive, _ []*Directive) {
			l.HTTP2 = l.HTTP2 || d.Name == "protocols" && a.Modules["http2_module"] && slices.ContainsFunc(d.Args, func(p string) bool { return p == "h2" || p == "h2c" })
			l.RemoteIP = l.RemoteIP || d.Name == "remoteipheader" && a.Modules["remoteip_module"]
		})
	}
}

// workers fills in the defaults of the MPM.
func (a *auditor) workers() {
	l := &a.Limits
	def := func(v *int, n int) {
		if *v == 0 {
			*v = n
		}
	}
	switch l.MPM {
	case "prefork":
		l.ThreadsPerChild = 1
		def(&l.ServerLimit, 256)
		def(&l.MaxRequestWorkers, 256)
		l.MaxRequestWorkers = min(l.MaxRequestWorkers, l.ServerLimit)
	case "event", "worker":
		def(&l.ServerLimit, 16)
		def(&l.ThreadsPerChild, 25)
		// Bounded first: two large numbers would overflow.
		most := min(l.ServerLimit, 20_000) * min(l.ThreadsPerChild, 20_000)
		def(&l.MaxRequestWorkers, min(most, 16*l.ThreadsPerChild))
		l.MaxRequestWorkers = min(l.MaxRequestWorkers, most)
	}
}

// setDuration reads seconds, or a number with ms, s, mi, h.
func setDuration(to *float64, s string) {
	units := []struct {
		suffix string
		ms     float64
	}{{"ms", 1}, {"s", 1000}, {"mi", 60_000}, {"h", 3_600_000}, {"", 1000}}
	for _, u := range units {
		if n, ok := strings.CutSuffix(s, u.suffix); ok {
			if v, err := strconv.ParseUint(n, 10, 31); err == nil {
				*to = float64(v) * u.ms
			}
			return
		}
	}
}
