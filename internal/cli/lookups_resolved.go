package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/whyslow/whyslow/dnscheck/lookups"
	"github.com/whyslow/whyslow/internal/accesslog"
)

// everyAddress is the sample that is none.
const everyAddress = 1 << 30

// checkResolved refuses what --write-resolved cannot do.
func (o *lookupsOptions) checkResolved(args []string) error {
	switch {
	case o.resolved == "":
		return nil
	case o.addresses != "" || len(args) == 1 && args[0] == "-":
		return usagef("--write-resolved reads the logs twice: give them as files")
	case o.sample != 0:
		return usagef("--write-resolved looks up every address; leave --sample out")
	case o.resolved != "-":
		if err := checkWritable(o.resolved); err != nil {
			return usagef("--write-resolved: %s: %w", o.resolved, err)
		}
	}
	o.sample = everyAddress
	return nil
}

// writeResolved does logresolve's work: an address is replaced only by a name
// that leads back to it, as HostnameLookups Double has it.
func (o *lookupsOptions) writeResolved(ctx context.Context, env *Env, args []string, res *lookups.Result) error {
	var to io.Writer = env.Out
	if o.resolved != "-" {
		path, tmp, err := replacement(o.resolved)
		if err != nil {
			return unwritten(fmt.Errorf("writing %s: %w", o.resolved, err))
		}
		defer os.Remove(tmp.Name()) // gone already where all went well
		if err := o.rewrite(ctx, env, tmp, args, res); err != nil {
			tmp.Close()
			return unwritten(fmt.Errorf("writing %s: %w", o.resolved, err))
		}
		if err := errors.Join(tmp.Close(), os.Rename(tmp.Name(), path)); err != nil {
			return unwritten(fmt.Errorf("writing %s: %w", o.resolved, cause(err)))
		}
		return nil
	}
	return unwritten(o.rewrite(ctx, env, to, args, res))
}

func (o *lookupsOptions) rewrite(ctx context.Context, env *Env, to io.Writer, args []string, res *lookups.Result) error {
	ro, err := o.readerOptions()
	if err != nil {
		return err
	}
	sets, _, err := accesslog.Sets(args)
	if err != nil {
		return err
	}
	if err := accesslog.Order(ctx, sets, ro); err != nil {
		return err
	}
	var done accesslog.Rewritten
	for _, set := range sets {
		d, err := accesslog.Rewrite(ctx, to, ro, res.NameOf, set.Sources...)
		if err != nil {
			return err
		}
		done.Lines, done.Named, done.Unnamed, done.Other = done.Lines+d.Lines, done.Named+d.Named, done.Unnamed+d.Unnamed, done.Other+d.Other
	}
	if !o.quiet {
		fmt.Fprintf(env.Err, "wrote %d lines: %d with a name, %d whose address has none that leads back, %d without an address\n",
			done.Lines, done.Named, done.Unnamed, done.Other)
	}
	return nil
}
