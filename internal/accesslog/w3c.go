package accesslog

import (
	"fmt"
	"strings"
	"time"
)

// w3cFields begins the line in which a log of the W3C's extended format (IIS,
// CloudFront) declares its own fields.
const w3cFields = "#Fields:"

// w3cKinds are the fields with a meaning. time-taken is in milliseconds (IIS)
// or, with a fraction, in seconds (CloudFront, the draft itself).
var w3cKinds = map[string]step{
	"date":           {kind: kindLayout, layout: isoLayout[:5]},
	"time":           {kind: kindLayout, layout: isoLayout[6:12]},
	"c-ip":           {kind: kindHost},
	"c-port":         {kind: kindRemotePort},
	"cs-method":      {kind: kindMethod},
	"cs-uri-stem":    {kind: kindPath},
	"cs-uri":         {kind: kindPath},
	"cs-version":     {kind: kindProtocol},
	"cs-host":        {kind: kindVHost},
	"cs(host)":       {kind: kindVHost},
	"sc-status":      {kind: kindStatus},
	"sc-bytes":       {kind: kindBytes},
	"time-taken":     {kind: kindDuration, unit: time.Millisecond},
	"cs(user-agent)": {kind: kindUserAgent},
	"cs(referer)":    {kind: kindReferer},
}

// compileW3C makes a format of the fields that a log declares, separated in
// its lines by a space (IIS) or a tab (CloudFront). Values hold neither, and
// times are in UTC.
func compileW3C(fields string, separator byte, opts CompileOptions) (*Format, error) {
	if opts.Name == "" {
		opts.Name = "W3C extended"
	}
	opts.Location = time.UTC
	c, err := newCompiler(strings.TrimSpace(fields), opts)
	if err != nil {
		return nil, err
	}
	c.f.escape = EscapeNone
	c.f.separator = separator
	header := strings.ToLower(opts.ClientHeader)
	if header == "" {
		header = "x-forwarded-for"
	}
	for i, name := range strings.Fields(fields) {
		if i > 0 {
			c.pending.WriteByte(separator)
		}
		lower := strings.ToLower(name)
		st, ok := w3cKinds[lower]
		switch {
		case lower == header || lower == "cs("+header+")":
			st.kind = kindForwarded
		case !ok:
			st.kind = kindToken
		}
		st.directive = name
		if err := c.add(st); err != nil {
			return nil, err
		}
	}
	f, err := c.finish()
	if err != nil {
		return nil, fmt.Errorf("%w (declared by the log)", err)
	}
	f.moment = Completed
	f.zoneless = false
	return f, nil
}
