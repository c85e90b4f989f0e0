package cli

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// The exit statuses. 1 to 3 appear only with --fail-on.
const (
	statusOK           = 0
	statusWarning      = 1
	statusCritical     = 2
	statusInconclusive = 3
	statusUnmeasured   = 4  // the target could not be measured
	statusUsage        = 64 // EX_USAGE of sysexits.h
	statusUnwritten    = 74 // EX_IOERR: the result could not be written
	statusInterrupted  = 130
)

// statusError ends a command with an exit status. Err may be nil where the
// output has said everything.
type statusError struct {
	status int
	err    error
}

func (e *statusError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.status)
	}
	return e.err.Error()
}

func (e *statusError) Unwrap() error { return e.err }

// exit returns the error that ends a command silently with status, nil for 0.
func exit(status int) error {
	if status == statusOK {
		return nil
	}
	return &statusError{status: status}
}

// usagef returns a usage error. It must name the flag or argument at fault.
func usagef(format string, args ...any) error {
	return &statusError{status: statusUsage, err: fmt.Errorf(format, args...)}
}

// failf returns the error of a measurement that could not be made. It should
// say what failed, on what, why, and what to do next.
func failf(format string, args ...any) error {
	return &statusError{status: statusUnmeasured, err: fmt.Errorf(format, args...)}
}

// packages are the prefixes that this module's errors have on every level,
// which tell a programmer where, and nobody else anything.
var packages = regexp.MustCompile(`(^|[:;(] )(?:(?:demo|diagnose|dnscheck|httpcheck|live|millis|netlab|netprobe|pmtu|render|reports|servers|simnet|trace|wire): )+`)

// readable is an error as one line for people. Of errors that were joined,
// each stands on a line of its own.
func readable(err error) string {
	var lines []string
	for line := range strings.Lines(err.Error()) {
		line = packages.ReplaceAllString(strings.TrimSpace(line), "$1")
		if line != "" && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "; ")
}

// refusals are the reasons of an error that says of each of several ways why
// it was refused, without the steps that led to them.
func refusals(err error) string {
	for e := err; e != nil; e = errors.Unwrap(e) {
		if joined, ok := e.(interface{ Unwrap() []error }); ok {
			return readable(errors.Join(joined.Unwrap()...))
		}
	}
	return readable(err)
}

// statusOf returns the exit status of a command's error. An error without one
// comes from cobra's argument checks, so it is a usage error.
func statusOf(err error) int {
	if err == nil {
		return statusOK
	}
	if se, ok := errors.AsType[*statusError](err); ok {
		return se.status
	}
	return statusUsage
}

// flagError turns pflag's error into a sentence that names the flag and says
// what it takes.
func flagError(cmd *cobra.Command, err error) error {
	if e, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return usagef("%s: %w", flagName(e.GetFlag()), e.Unwrap())
	}
	if e, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		kind, _ := pflag.UnquoteUsage(e.GetFlag())
		return usagef("%s needs a value: %s", flagName(e.GetFlag()), kind)
	}
	if e, ok := errors.AsType[*pflag.NotExistError](err); ok {
		if e.GetSpecifiedShortnames() != "" {
			return usagef("-%c: no such flag", e.GetSpecifiedName()[0])
		}
		name := e.GetSpecifiedName()
		if near := nearestFlag(cmd.Flags(), name); near != "" {
			return usagef("--%s: no such flag; did you mean --%s?", name, near)
		}
		if !cmd.HasParent() {
			return usagef("--%s: no such flag here; flags follow the command, as in %q", name, "whyslow report --"+name)
		}
		return usagef("--%s: no such flag", name)
	}
	return usagef("%w", err)
}

// flagName shows a flag as it is typed: "-k, --insecure".
func flagName(f *pflag.Flag) string {
	if f.Shorthand != "" {
		return "-" + f.Shorthand + ", --" + f.Name
	}
	return "--" + f.Name
}

// nearestFlag returns the flag whose name is closest to a mistyped one, "" if
// none is near.
func nearestFlag(fs *pflag.FlagSet, name string) string {
	var names []string
	fs.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	return nearest(names, name)
}

// nearest returns the word closest to a mistyped one, "" if none is near.
func nearest(words []string, typed string) string {
	if len(typed) > 32 {
		return ""
	}
	best, bestDist := "", len(typed)/3+2
	for _, w := range words {
		if len(typed) >= 3 && strings.HasPrefix(w, typed) {
			return w
		}
		if d := editDistance(w, typed); d < bestDist {
			best, bestDist = w, d
		}
	}
	return best
}

// editDistance is the Levenshtein distance of two short strings.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		prev := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := prev
			if a[i-1] != b[j-1] {
				cost++
			}
			prev, row[j] = row[j], min(cost, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}
