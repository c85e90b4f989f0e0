package trace

import "context"

// SampleLoaded is Sample for a path that a transfer is using: it fills
// res.Loaded and Hop.Loaded and leaves the idle samples and the reading alone.
// The difference of the two is the queue that the transfer fills, and the hop
// from which on it shows is where.
func SampleLoaded(ctx context.Context, res *Result, opt SampleOptions) error {
	during := *res
	during.Hops = append([]Hop(nil), res.Hops...)
	err := Sample(ctx, &during, opt)
	res.Loaded = during.Destination
	for i := range res.Hops {
		// Sample replaces the pointer where a router answered, and only there.
		if during.Hops[i].Direct != res.Hops[i].Direct {
			res.Hops[i].Loaded = during.Hops[i].Direct
		}
	}
	return err
}
