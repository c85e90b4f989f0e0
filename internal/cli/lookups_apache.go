package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/whyslow/whyslow/internal/apacheconf"
)

// maxEnvvars bounds the envvars file that is read.
const maxEnvvars = 1 << 20

// readApache reads the server's configuration, and takes from it what no flag
// says: the format of the logs, the workers, how long connections are kept.
func (o *lookupsOptions) readApache(env *Env, args []string) (*apacheconf.Audit, error) {
	if o.apacheConf == "" {
		return nil, nil
	}
	file, err := filepath.Abs(o.apacheConf)
	if err != nil {
		return nil, usagef("--apache-conf: %w", err)
	}
	// Debian's envvars has what ${APACHE_LOG_DIR} stands for.
	var vars map[string]string
	envvars := filepath.Join(filepath.Dir(file), "envvars")
	if st, err := os.Stat(envvars); err == nil && st.Mode().IsRegular() && st.Size() <= maxEnvvars {
		if b, err := os.ReadFile(envvars); err == nil {
			vars = apacheconf.ReadEnv(string(b))
		}
	}
	conf, err := apacheconf.Read(filepath.ToSlash(file), apacheconf.Options{FS: os.DirFS("/"), Env: vars})
	if err != nil {
		return nil, usagef("--apache-conf: %w", err)
	}
	audit := conf.Audit(file)
	if o.workers == 0 {
		o.workers = audit.Limits.MaxRequestWorkers
	}
	if o.keepAlive == 0 && audit.Limits.KeepAlive {
		o.keepAlive = audit.Limits.KeepAliveTimeout()
	}
	o.perRequest = o.perRequest || audit.Limits.RemoteIP || !audit.Limits.KeepAlive
	o.takeFormat(env, audit, args)
	return audit, nil
}

// takeFormat takes the format of the logs, if they have one in common: else
// each is found from its lines.
func (o *lookupsOptions) takeFormat(env *Env, audit *apacheconf.Audit, args []string) {
	if o.logFormat != "" {
		return
	}
	var formats []string
	for _, arg := range args {
		path, err := filepath.Abs(arg)
		if err != nil || arg == "-" {
			return
		}
		l, ok := audit.LogOf(filepath.ToSlash(path))
		if !ok {
			fmt.Fprintf(env.Err, "whyslow: no line of %s writes %s; its format is found from its lines\n", clean(o.apacheConf), clean(arg))
			return
		}
		formats = append(formats, l.Format)
	}
	if formats = slices.Compact(formats); len(formats) == 1 {
		o.logFormat = formats[0]
	}
}
