package cli

import (
	"crypto/x509"
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// common holds the flags that every measuring command has.
type common struct {
	ipv4, ipv6 bool
	resolvConf string
	caCert     string
	insecure   bool
	iface      string
	source     netip.Addr
	maxTime    time.Duration
	format     string
	json       bool
	outputs    []output
	formats    []format // that the command offers; nil means those of every result
	color      string
	quiet      bool
	verbose    bool
}

// letters are the one-letter forms that only some commands give to a common
// flag, because elsewhere a well-known tool uses the letter otherwise.
type letters struct{ insecure, iface, source string }

// Bounds of --max-time. Below a tenth of a second nothing comes back.
const (
	leastMaxTime = 100 * time.Millisecond
	mostMaxTime  = time.Hour
)

// addTo registers the flags.
func (c *common) addTo(fs *pflag.FlagSet, short letters) {
	add := pflag.NewFlagSet("common", pflag.ContinueOnError)
	add.SortFlags = false
	add.BoolVarP(&c.ipv4, "ipv4", "4", false, "use IPv4 only")
	add.BoolVarP(&c.ipv6, "ipv6", "6", false, "use IPv6 only")
	add.Var(textValue{&c.resolvConf, "FILE"}, "resolv-conf", "read the resolver configuration from FILE")
	add.Var(textValue{&c.caCert, "FILE"}, "cacert", "trust the certificates in FILE (PEM) instead of the system's")
	add.BoolVarP(&c.insecure, "insecure", short.insecure, false, "accept any certificate")
	add.VarP(textValue{&c.iface, "NAME"}, "interface", short.iface, "send through the network interface NAME")
	add.VarP(addrValue{&c.source}, "source", short.source, "send from this local address")
	add.Var(newDuration(&c.maxTime, leastMaxTime, mostMaxTime), "max-time", "end after this time and show what is known")
	c.addOutput(add)
	add.VisitAll(func(f *pflag.Flag) {
		f.Annotations = map[string][]string{groupCommon: {"true"}}
		fs.AddFlag(f)
	})
}

// addOutput registers the flags that say how to write a result, alone for a
// command that measures nothing.
func (c *common) addOutput(fs *pflag.FlagSet) {
	c.color = "auto"
	if c.formats == nil {
		c.formats = formats()
	}
	fs.Var(enumValue{&c.format, formatNames(c.formats)}, "format", "how to write the result (default text)")
	fs.BoolVar(&c.json, "json", false, "short for --format json")
	fs.VarP(outputsValue{&c.outputs, c.formats}, "output", "o",
		"write to FILE too, readable by you alone; repeatable; the format follows the extension: "+strings.Join(extensions(c.formats), ", "))
	fs.Var(enumValue{&c.color, []string{"auto", "always", "never"}}, "color", "colour the text; auto is only on a terminal without NO_COLOR")
	fs.BoolVar(&c.quiet, "quiet", false, "no progress and no warnings; with -o nothing on stdout either")
	fs.BoolVarP(&c.verbose, "verbose", "v", false, "show every sample")
}

// check validates the flags together, once they are all parsed.
func (c *common) check() error {
	if c.ipv4 && c.ipv6 {
		return usagef("-4, --ipv4 and -6, --ipv6 exclude each other")
	}
	switch {
	case c.json && c.format != "" && c.format != formatJSON:
		return usagef("--json and --format %s exclude each other", c.format)
	case c.json:
		c.format = formatJSON
	case c.format == "":
		c.format = formatText
	}
	if err := c.checkLocal(); err != nil {
		return err
	}
	if c.resolvConf != "" {
		if err := checkReadable(c.resolvConf); err != nil {
			return usagef("--resolv-conf: %w", err)
		}
	}
	for _, o := range c.outputs {
		if err := checkWritable(o.path); err != nil {
			return usagef("-o, --output: %s cannot be written: %w", o.path, err)
		}
	}
	return nil
}

// family returns 4, 6, or 0 for either.
func (c *common) family() int {
	switch {
	case c.ipv4:
		return 4
	case c.ipv6:
		return 6
	}
	return 0
}

// maxPEM bounds what is read from --cacert. The bundle of a whole system is
// about 200 kB.
const maxPEM = 8 << 20

// pool returns the certificates of --cacert, nil for the system's.
func (c *common) pool() (*x509.CertPool, error) {
	if c.caCert == "" {
		return nil, nil
	}
	pem, err := readBounded(c.caCert, maxPEM)
	if err != nil {
		return nil, usagef("--cacert: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, usagef("--cacert: %s holds no PEM certificate", c.caCert)
	}
	return pool, nil
}

// useColor decides on colours for what goes to stdout.
func (c *common) useColor(env *Env) bool {
	switch c.color {
	case "always":
		return true
	case "never":
		return false
	}
	// https://no-color.org: any value but the empty one.
	return env.OutTerminal && env.Getenv("NO_COLOR") == "" && env.Getenv("TERM") != "dumb"
}
