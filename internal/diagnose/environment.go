package diagnose

import (
	"os"
	"runtime"
	"strings"

	"github.com/whyslow/whyslow/dnscheck"
	"github.com/whyslow/whyslow/reports"
)

// environment is what can be told of this host before anything is measured.
func environment() reports.Environment {
	e := reports.Environment{OS: runtime.GOOS + "/" + runtime.GOARCH, Kernel: kernel()}
	if name, err := os.Hostname(); err == nil {
		e.Hostname = name
	}
	return e
}

// resolverView names the servers that were asked, and the file that named them.
func resolverView(d *dnscheck.Result) string {
	s := strings.Join(d.Config.Nameservers, " ")
	if d.Config.File != "" {
		s += " (" + d.Config.File + ")"
	}
	return s
}
