package dnscheck

// Find judges the observations of r: pure, no clock, no I/O. The costs of its
// findings add up to no more than the stub's elapsed time less what a healthy
// resolver would have needed.
func Find(r *Result) []Finding { return nil }
