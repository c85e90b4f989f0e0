package pmtu

import "context"

// Run measures the path MTU. When ctx ends it returns what is known so far
// together with ctx's error.
func Run(ctx context.Context, opt Options) (*Result, error) {
	if !opt.Dst.IsValid() {
		return &Result{Schema: Schema}, ErrNoDestination
	}
	return &Result{Schema: Schema}, ctx.Err()
}

// HopMTU returns the path MTU from this host up to and including the hop at
// ttl, in bytes, and whether it is known.
func (r *Result) HopMTU(ttl int) (mtu int, known bool) { return 0, false }
