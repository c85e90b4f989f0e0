//go:build !linux

package diagnose

// kernel is not asked for elsewhere: no measurement depends on it there.
func kernel() string { return "" }
