package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/whyslow/whyslow/internal/netlab"
	"github.com/whyslow/whyslow/internal/stats"
)

// clocked are the contenders whose round trips are held against a capture, and
// how often each runs. Of mtr the raw form, as the report rounds to 0.1 ms.
func clocked(o *options) (cs []clock, runs []int) {
	add := func(c contender, ordinary bool, n int) {
		if o.quick {
			n = max(1, n/3)
		}
		cs, runs = append(cs, clock{c, ordinary}), append(runs, n)
	}
	as := func(name string, c contender) contender {
		if c.ours {
			c.parse = parseOurJSON
		}
		c.name = name
		return c
	}
	add(as("whyslow trace -I, raw socket", whyslow(o.binary, 1, "-I", "--json")), false, 12)
	add(as("whyslow trace -I, ping socket", whyslow(o.binary, 1, "-I", "--json")), true, 12)
	add(as("whyslow trace -U, raw socket", whyslow(o.binary, 1, "-U", "--json")), false, 12)
	add(as("whyslow trace -U, without privilege", whyslow(o.binary, 1, "-U", "--json")), true, 12)
	add(as("whyslow trace -T, raw socket", whyslow(o.binary, 1, "-T", "--json")), false, 12)
	add(as("whyslow trace -T, without privilege", whyslow(o.binary, 1, "-T", "--json")), true, 12)
	add(traceroute(1, "-U"), false, 12)
	add(traceroute(1, "-I"), false, 12)
	add(traceroute(1, "-T"), false, 12)
	add(tracepath(), false, 4)
	raw := program(1, parseMTRRaw, "mtr", "-n", "--raw", "-c", "1")
	raw.name = "mtr --raw"
	if !o.quick {
		add(raw, false, 1)
	}
	add(scamper("icmp-paris"), false, 6)
	add(tcptraceroute(), false, 4)
	return cs, runs
}

// clock is a contender as a user with or without privilege.
type clock struct {
	contender
	ordinary bool
}

// watched runs the contender in a world with a capture beside it.
func (c clock) watched(ctx context.Context, w *world, o *options) (errs []time.Duration, unmatched int, err error) {
	cmd := c.command(w)
	cmd.ordinary = c.ordinary
	p := newPairing(w.src, w.dst)
	var said path
	err = inWorld(w, func(lab *netlab.Lab) error {
		tap, err := openCapture("lab0")
		if err != nil {
			return err
		}
		defer tap.close()
		out, err := performIn(ctx, lab, cmd, o.patience)
		if err != nil {
			return err
		}
		if err := p.drain(tap); err != nil {
			return err
		}
		if said, err = c.parse(out.stdout); err != nil {
			return fmt.Errorf("%w (%.200s)", err, out.stderr)
		}
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	errs, unmatched = p.errors(said)
	return errs, unmatched, nil
}

func runRTT(ctx context.Context, o *options, emit func(*table) error) error {
	t := &table{title: "rtt: round trips that were printed against a packet capture of the same, 12 hops with 60 ms",
		columns: []string{"", "runs", "round trips", "median error", "p99", "worst"}}
	// The kernel begins to stamp what arrives some time after the first socket
	// asks for it, and until then stamps when it is read.
	keep, err := openCapture("lo")
	if err != nil {
		return err
	}
	defer keep.close()
	time.Sleep(100 * time.Millisecond)

	cs, runs := clocked(o)
	var figures []figure
	for i, c := range cs {
		if len(available([]contender{c.contender})) == 0 {
			continue
		}
		var errs []time.Duration
		unmatched := 0
		for n := range runs[i] {
			e, u, err := c.watched(ctx, chain{}.build(uint64(n)), o)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			errs, unmatched = append(errs, e...), unmatched+u
		}
		q := stats.Quantiles(errs, 0.5, 0.99, 1)
		t.add(c.name, fmt.Sprint(runs[i]), fmt.Sprint(len(errs)), micros(q[0]), micros(q[1]), micros(q[2]))
		if o.verbose {
			fmt.Fprintf(os.Stderr, "rtt: %s: %v\n", c.name, errs)
		}
		if unmatched > 0 {
			t.note("%s: %d round trips of which the capture knows nothing", c.name, unmatched)
		}
		if len(errs) > 0 {
			figures = append(figures, figure{c, q[0], q[1]})
		}
	}
	for _, f := range figures {
		if f.ours {
			f.promise(t, figures)
		}
	}
	return emit(t)
}

// figure is how exact a contender was.
type figure struct {
	clock
	median, p99 time.Duration
}

// resolution is that of the round trips that all print.
const resolution = time.Microsecond

// promise holds a figure of ours against the goals: bounds of its own, and no
// peer that is nearer the truth by more than can be printed.
func (f figure) promise(t *table, all []figure) {
	t.promise(f.median <= 20*time.Microsecond && f.p99 <= 200*time.Microsecond, micros(f.median)+", "+micros(f.p99),
		"%s: median within 20 µs, p99 within 200 µs", f.name)
	var best *figure
	for i, p := range all {
		if !p.ours && (best == nil || p.median < best.median) {
			best = &all[i]
		}
	}
	if best != nil {
		t.promise(f.median <= best.median+resolution, fmt.Sprintf("%s against %s", micros(f.median), micros(best.median)),
			"%s: median below every peer's or the same to 1 µs, the best being %s", f.name, best.name)
	}
}

func micros(d time.Duration) string { return fmt.Sprintf("%.1f µs", d.Seconds()*1e6) }
