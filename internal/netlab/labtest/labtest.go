// Package labtest holds what lab tests of all packages need: above all the
// decision to skip, which must never be silent where a lab is required.
package labtest

import (
	"os"
	"testing"

	"github.com/whyslow/whyslow/internal/netlab"
)

// Required is the environment variable that turns skips into failures when its
// value is 1.
const Required = "WHYSLOW_REQUIRE_LAB"

// Need skips the test, or fails it where Required says so, unless it runs
// inside a lab's namespaces (netlab.Main) and the programs named are
// installed.
func Need(tb testing.TB, programs ...string) {
	tb.Helper()
	if !netlab.Inside() {
		err := netlab.Permitted()
		if err == nil {
			tb.Fatal("the package's TestMain does not call netlab.Main")
		}
		Skip(tb, err.Error())
	}
	for _, p := range programs {
		if _, err := netlab.LookPath(p); err != nil {
			Skip(tb, p+" is not installed")
		}
	}
}

// Skip skips the test for a reason that lies in the host, or fails it where
// Required says so.
func Skip(tb testing.TB, reason string) {
	tb.Helper()
	if os.Getenv(Required) == "1" {
		tb.Fatalf("%s=1, but this test can't run: %s", Required, reason)
	}
	tb.Skip(reason)
}
