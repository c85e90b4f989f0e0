package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/whyslow/whyslow/internal/netlab"
	"github.com/whyslow/whyslow/internal/netprobe"
	"github.com/whyslow/whyslow/internal/stats"
	"github.com/whyslow/whyslow/trace"
)

// workerName is the hidden argument by which this program traces many targets
// at once in a process of its own, whose memory can be measured.
const workerName = "worker"

// work is what a worker tells on stdout.
type work struct {
	Wall    time.Duration   `json:"wall_ns"`
	Memory  int64           `json:"memory"` // at the peak, bytes
	Results []*trace.Result `json:"results"`
	Errors  []string        `json:"errors"`
}

// worker traces all its arguments as one group.
func worker(ctx context.Context, args []string, out, errs io.Writer) int {
	var dsts []netip.Addr
	for _, a := range args {
		dst, err := netip.ParseAddr(a)
		if err != nil {
			fmt.Fprintln(errs, err)
			return exitUsage
		}
		dsts = append(dsts, dst)
	}
	if err := json.NewEncoder(out).Encode(traceAll(ctx, dsts)); err != nil {
		fmt.Fprintln(errs, err)
		return exitFailed
	}
	return 0
}

func traceAll(ctx context.Context, dsts []netip.Addr) work {
	var w work
	host := &netprobe.Host{}
	opts := make([]trace.Options, len(dsts))
	for i, dst := range dsts {
		opts[i] = trace.Options{Network: host, Dst: dst, Queries: 1}
	}
	start := time.Now()
	for _, out := range trace.RunGroup(ctx, opts) {
		w.Results = append(w.Results, out.Result)
		if out.Err != nil {
			w.Errors = append(w.Errors, out.Err.Error())
		}
	}
	w.Wall, w.Memory = time.Since(start), peakMemory("self")
	return w
}

// crowd is what tracing some targets of a fan at once gave.
type crowd struct {
	outcome
	inside time.Duration // without the process around it; 0 if not known
	tally
}

// crowded traces the first so many targets by our library.
func crowded(ctx context.Context, o *options, limited bool, targets int) (c crowd, err error) {
	exe, err := os.Executable()
	if err != nil {
		return c, err
	}
	w, all := fan(limited)
	args := []string{workerName}
	for _, t := range all[:targets] {
		args = append(args, t.dst.String())
	}
	if c.outcome, err = perform(ctx, w, command{path: exe, args: args}, o.patience); err != nil {
		return c, err
	}
	var done work
	if err := json.Unmarshal([]byte(c.stdout), &done); err != nil {
		return c, fmt.Errorf("reading what the worker said: %w: %.200s", err, c.stderr)
	}
	c.inside, c.usage.rss = done.Wall, done.Memory
	for i, res := range done.Results {
		if res != nil {
			c.count(all[i], pathOf(res))
		}
	}
	if o.verbose {
		fmt.Fprintf(os.Stderr, "many: %d targets, limited %v: %v (%v inside, CPU %v), late %v, %d packets, %+v, %d errors %.200v\n",
			targets, limited, c.wall, c.inside, c.usage.cpu, c.lateness, c.packets, c.tally, len(done.Errors), done.Errors)
	}
	return c, nil
}

// scampered does the same by scamper, which traces many targets at once too.
func scampered(ctx context.Context, o *options, limited bool, targets int) (c crowd, err error) {
	w, all := fan(limited)
	args := []string{"-p", "10000", "-w", fmt.Sprint(targets), "-c", "trace -P icmp-paris", "-i"}
	for _, t := range all[:targets] {
		args = append(args, t.dst.String())
	}
	if c.outcome, err = perform(ctx, w, command{path: "scamper", args: args, memory: true}, min(o.patience, tableTime)); err != nil {
		return c, err
	}
	for _, block := range strings.Split(c.stdout, "traceroute from ")[1:] {
		for _, t := range all[:targets] {
			head, rest, _ := strings.Cut(block, "\n")
			if strings.HasSuffix(strings.TrimSpace(head), " to "+t.dst.String()) {
				if p, err := parseLines(rest); err == nil {
					c.count(t, p)
				}
			}
		}
	}
	return c, nil
}

// repeated takes the median run of several by wall time; of what went wrong
// the worst.
func repeated(n int, f func() (crowd, error)) (crowd, error) {
	var runs []crowd
	var walls, insides []time.Duration
	for range n {
		c, err := f()
		if err != nil {
			return c, err
		}
		runs = append(runs, c)
		walls, insides = append(walls, c.wall), append(insides, c.inside)
	}
	c := runs[0]
	for _, r := range runs[1:] {
		c.mixed, c.lost, c.right = max(c.mixed, r.mixed), max(c.lost, r.lost), min(c.right, r.right)
		c.usage.rss, c.ended = max(c.usage.rss, r.usage.rss), c.ended && r.ended
	}
	c.wall, c.inside = stats.Median(walls), stats.Median(insides)
	return c, nil
}

func runMany(ctx context.Context, o *options, emit func(*table) error) error {
	t := &table{title: fmt.Sprintf("many: %d targets at once, %d hops each of which %d are shared, 60 ms", fanTargets, fanHops, fanShared),
		columns: []string{"", "targets", "wall", "library alone", "packets", "right", "mixed hops", "lost hops", "peak memory"}}
	for _, limited := range []bool{false, true} {
		name := "no limits on errors"
		if limited {
			name = "Linux's limits"
		}
		show := func(who string, targets int, c crowd) {
			inside := ""
			if c.inside > 0 {
				inside = millis(c.inside)
			}
			t.add(who+", "+name, fmt.Sprint(targets), bounded(c.outcome), inside, fmt.Sprint(c.packets), fmt.Sprintf("%d/%d", c.right, targets),
				fmt.Sprint(c.mixed), fmt.Sprint(c.lost), megabytes(c.usage.rss))
		}
		one, err := repeated(o.runs, func() (crowd, error) { return crowded(ctx, o, limited, 1) })
		if err != nil {
			return err
		}
		all, err := repeated(o.runs, func() (crowd, error) { return crowded(ctx, o, limited, fanTargets) })
		if err != nil {
			return err
		}
		show("whyslow", 1, one)
		show("whyslow", fanTargets, all)
		if _, err := netlab.LookPath("scamper"); err == nil {
			c, err := scampered(ctx, o, limited, fanTargets)
			if err != nil {
				return err
			}
			show("scamper", fanTargets, c)
		}
		if !limited {
			t.promise(all.inside <= 2*one.inside, ratio(all.inside, one.inside), "%s: all within 2 × the time of one", name)
		}
		t.promise(all.mixed == 0, fmt.Sprint(all.mixed), "%s: no reply is another's", name)
		t.promise(all.lost == 0 && all.right == fanTargets, fmt.Sprintf("%d lost, %d right", all.lost, all.right), "%s: no hop is lost", name)
		t.promise(all.usage.rss <= 40e6, megabytes(all.usage.rss), "%s: memory within 40 MB", name)
	}
	return emit(t)
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }
