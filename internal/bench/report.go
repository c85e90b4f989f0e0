package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/whyslow/whyslow/internal/simnet"
)

type simRouter = simnet.Router

// section is a group of tables under one name.
type section struct {
	name  string
	rows  func() []string // names below it; nil means none
	title string
	run   func(ctx context.Context, o *options, emit func(*table) error) error
}

func sections() []section {
	return []section{
		{"path", rowNames, "speed and truth of one trace", runPaths},
		{"destination", nil, "how often the destination is found at its true hop number", runDestination},
		{"rtt", nil, "round trips against a packet capture", runRTT},
		{"pmtu", narrowNames, "whether the path MTU is right, and how soon", runPMTU},
		{"many", nil, "64 targets at once", runMany},
		{"idle", nil, "what a long run costs", runIdle},
	}
}

func rowNames() []string {
	var names []string
	for _, r := range pathRows() {
		names = append(names, r.name)
	}
	return names
}

func writeList(out io.Writer) error {
	for _, s := range sections() {
		if _, err := fmt.Fprintf(out, "%-28s %s\n", s.name, s.title); err != nil {
			return err
		}
		if s.rows == nil {
			continue
		}
		for _, r := range s.rows() {
			if _, err := fmt.Fprintf(out, "%s/%s\n", s.name, r); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkOnly refuses names that mean nothing.
func checkOnly(only []string) error {
	for _, name := range only {
		top, below, _ := strings.Cut(name, "/")
		i := slices.IndexFunc(sections(), func(s section) bool { return s.name == top })
		if i < 0 || below != "" && (sections()[i].rows == nil || !slices.Contains(sections()[i].rows(), below)) {
			return fmt.Errorf("--only: there is no %q; --list tells what there is", name)
		}
	}
	return nil
}

// wants reports whether a row of a section is to be run; the section itself
// if row is empty. byDefault is for runs that ask for nothing in particular.
func (o *options) wants(section, row string, byDefault bool) bool {
	if len(o.only) == 0 {
		return byDefault
	}
	for _, name := range o.only {
		top, below, _ := strings.Cut(name, "/")
		if top == section && (row == "" || below == "" && byDefault || below == row) {
			return true
		}
	}
	return false
}

// benchPath runs everything that is asked for, inside the lab.
func benchPath(ctx context.Context, o options, out io.Writer) error {
	start := time.Now()
	if err := preface(ctx, &o, out); err != nil {
		return err
	}
	missed, promised := 0, 0
	emit := func(t *table) error {
		for _, g := range t.goals {
			promised++
			if !g.met {
				missed++
			}
		}
		return t.write(out, o.markdown)
	}
	for _, s := range sections() {
		if !o.wants(s.name, "", true) {
			continue
		}
		began := time.Now()
		if err := s.run(ctx, &o, emit); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		if o.verbose {
			fmt.Fprintf(os.Stderr, "%s took %.1f s\n", s.name, time.Since(began).Seconds())
		}
	}
	_, err := fmt.Fprintf(out, "\n%d of %d goals met, in %.0f s\n", promised-missed, promised, time.Since(start).Seconds())
	return err
}

// preface says where and with what is measured.
func preface(ctx context.Context, o *options, out io.Writer) error {
	t := &table{title: "bench path"}
	t.note("Linux %s, %d CPUs, %s; load average before: %s", procFile("sys/kernel/osrelease"), runtime.NumCPU(), runtime.Version(), procFile("loadavg"))
	var names []string
	for _, p := range peers {
		names = append(names, p.describe(ctx))
	}
	t.note("peers: %s", strings.Join(names, ", "))
	t.note("medians of up to %d runs, each in a network of its own, taken in turns; a run is ended after %v", o.runs, o.patience)
	return t.write(out, o.markdown)
}

// procFile is the first word of a file of /proc.
func procFile(name string) string {
	b, err := os.ReadFile("/proc/" + name)
	if f := strings.Fields(string(b)); err == nil && len(f) > 0 {
		return f[0]
	}
	return "?"
}

func runPaths(ctx context.Context, o *options, emit func(*table) error) error {
	for _, r := range pathRows() {
		if !o.wants("path", r.name, !r.full || !o.quick) {
			continue
		}
		t, err := pathTable(ctx, o, r)
		if err != nil {
			return err
		}
		if err := emit(t); err != nil {
			return err
		}
	}
	return nil
}
