package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/whyslow/whyslow/internal/netlab"
	"github.com/whyslow/whyslow/trace"
)

// contender is a way to trace a path: a program with its options, or our
// library within this process.
type contender struct {
	name    string
	ours    bool
	library func(*world) trace.Options // nil for a program
	command func(w *world) command
	parse   parser
	// probes is how many probes a hop it sends; only what sends alike is
	// compared.
	probes int
}

// whyslow is our program with options before the target.
func whyslow(binary string, probes int, more ...string) contender {
	name := "whyslow trace -q " + strconv.Itoa(probes)
	for _, m := range more {
		name += " " + m
	}
	return contender{name: name, ours: true, probes: probes, parse: parseOurs, command: func(w *world) command {
		args := append([]string{"trace", "-n", "-q", strconv.Itoa(probes), "--samples", "0", "--no-mtu"}, more...)
		return command{path: binary, args: append(args, w.dst.String())}
	}}
}

// inProcess is our library, without a process to start.
func inProcess(probes int) contender {
	return contender{name: fmt.Sprintf("  the library alone, %d a hop", probes), ours: true, probes: probes,
		library: func(w *world) trace.Options { return trace.Options{Dst: w.dst, Queries: probes} }}
}

// program is a peer with options before the target.
func program(probes int, parse parser, path string, args ...string) contender {
	name := path
	for _, a := range args {
		if a != "-n" {
			name += " " + a
		}
	}
	return contender{name: name, probes: probes, parse: parse, command: func(w *world) command {
		return command{path: path, args: append(append([]string{}, args...), w.dst.String())}
	}}
}

func traceroute(probes int, method string) contender {
	return program(probes, parseLines, "traceroute", "-n", method, "-q", strconv.Itoa(probes))
}

func tracepath() contender { return program(1, parseLines, "tracepath", "-n") }

func mtr(cycles int) contender {
	c := program(cycles, parseMTRReport, "mtr", "-n", "-r", "-c", strconv.Itoa(cycles))
	c.name = "mtr -r -c " + strconv.Itoa(cycles)
	return c
}

// scamper traces with as many packets a second as it is let: by default it
// sends 20.
func scamper(method string) contender {
	return contender{name: "scamper -p 1000 " + method, probes: 1, parse: parseLines, command: func(w *world) command {
		return command{path: "scamper", args: []string{"-p", "1000", "-I", "trace -P " + method + " " + w.dst.String()}}
	}}
}

func tcptraceroute() contender {
	return contender{name: "tcptraceroute -q 1", probes: 1, parse: parseLines, command: func(w *world) command {
		return command{path: "tcptraceroute", args: []string{"-n", "-q", "1", w.dst.String(), strconv.Itoa(port)}}
	}}
}

// available are the contenders whose program this host has.
func available(cs []contender) []contender {
	var out []contender
	for _, c := range cs {
		if c.command != nil {
			if _, err := netlab.LookPath(c.command(&world{}).path); err != nil {
				continue
			}
		}
		out = append(out, c)
	}
	return out
}

// tracing is one run of a contender.
type tracing struct {
	outcome
	path  path
	wrong string // why the path is not right; empty if it is
}

// trace runs the contender once in a world of its own.
func (c contender) trace(ctx context.Context, w *world, o *options) (tracing, error) {
	if c.library != nil {
		return c.traceInProcess(ctx, w)
	}
	out, err := perform(ctx, w, c.command(w), o.patience)
	if err != nil {
		return tracing{}, err
	}
	t := tracing{outcome: out}
	if t.path, err = c.parse(out.stdout); err != nil {
		t.wrong = err.Error()
	} else {
		t.wrong = w.judge(t.path)
	}
	if !out.ended {
		t.wrong = "did not end"
	}
	return t, nil
}
