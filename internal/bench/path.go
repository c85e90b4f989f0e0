package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/whyslow/whyslow/internal/stats"
)

// row is one network of the table of paths.
type row struct {
	name, title string
	build       func(seed uint64) *world
	full        bool // left out by --quick
	// contenders beside ours; nil means all that fit.
	contenders func(o *options) []contender
	// within is a goal of its own for one probe a hop; zero means that of a
	// path where everybody answers: 1.1 × the largest round trip.
	within time.Duration
	// silent says that nobody answers for some TTL, so that the time for
	// three probes a hop is not bounded by round trips alone.
	silent bool
}

// pathRows are the networks.
func pathRows() []row {
	return []row{
		{name: "12-hops", title: "12 hops, 60 ms", build: chain{}.build, contenders: everybody},
		{name: "silent-hop", title: "12 hops, hop 5 silent", within: 300 * time.Millisecond, silent: true,
			build: chain{router: func(ttl int, r *simRouter) { r.Silent = ttl == 5 }}.build},
		{name: "silent-destination", title: "12 hops, the destination silent", within: 1500 * time.Millisecond, silent: true,
			build: chain{silentDst: true}.build, contenders: patient},
		{name: "rate-limited", title: "12 hops, each limits errors as Linux does: 6, then 1/s",
			build: chain{limited: true}.build},
		{name: "ecmp-4", title: "12 hops, hops 4 to 6 four times side by side (right: one of the four ways)", build: forked, contenders: ecmpContenders},
		{name: "30-hops", title: "30 hops, 120 ms", build: chain{hops: 30, delay: 2 * time.Millisecond}.build, full: true},
		{name: "v6", title: "IPv6, 12 hops, 60 ms", build: chain{v6: true}.build, contenders: v6Contenders},
	}
}

// everybody is what the first row compares.
func everybody(o *options) []contender {
	cs := append(standard(o), whyslow(o.binary, 1, "-U"), whyslow(o.binary, 1, "-T"), scamper("udp-paris"), traceroute(1, "-T"))
	if o.quick {
		return append(cs, mtr(1), tcptraceroute())
	}
	return append(cs, whyslow(o.binary, 10), mtr(10))
}

// standard is what a row compares unless it says otherwise.
func standard(o *options) []contender {
	cs := []contender{
		whyslow(o.binary, 1), inProcess(1), whyslow(o.binary, 3), inProcess(3),
		traceroute(1, "-U"), traceroute(1, "-I"), traceroute(3, "-U"), traceroute(3, "-I"),
		tracepath(), scamper("icmp-paris"),
	}
	if o.quick {
		return cs
	}
	return append(cs, mtr(1), tcptraceroute())
}

// patient leaves out what takes longest where nothing answers and teaches
// nothing new.
func patient(o *options) []contender {
	return []contender{
		whyslow(o.binary, 1), inProcess(1), whyslow(o.binary, 3),
		traceroute(1, "-U"), traceroute(1, "-I"), tracepath(), mtr(1), scamper("icmp-paris"),
	}
}

// ecmpContenders are more of those that promise to keep to one way.
func ecmpContenders(o *options) []contender {
	return append(standard(o), whyslow(o.binary, 1, "-U"), whyslow(o.binary, 1, "-T"), traceroute(1, "-T"), scamper("udp-paris"))
}

func v6Contenders(o *options) []contender {
	return slices.DeleteFunc(standard(o), func(c contender) bool { return strings.HasPrefix(c.name, "tcptraceroute") })
}

// record is what a contender did in a row.
type record struct {
	contender
	runs []tracing
}

func (r *record) spent() (d time.Duration) {
	for _, t := range r.runs {
		d += t.wall
	}
	return d
}

func (r *record) wall() time.Duration {
	var ds []time.Duration
	for _, t := range r.runs {
		ds = append(ds, t.wall)
	}
	return stats.Median(ds)
}

func (r *record) packets() float64 {
	var ns []float64
	for _, t := range r.runs {
		ns = append(ns, float64(t.packets))
	}
	return stats.Median(ns)
}

func (r *record) right() (n int, wrong string) {
	for _, t := range r.runs {
		if t.wrong == "" {
			n++
		} else {
			wrong = t.wrong
		}
	}
	return n, wrong
}

func (r *record) ended() bool {
	for _, t := range r.runs {
		if !t.ended {
			return false
		}
	}
	return true
}

// enough is how long a contender may take in a row before it gets no further
// run.
const enough = 2 * time.Second

// compete lets contenders take turns in a row.
func compete(ctx context.Context, o *options, r row) ([]*record, time.Duration, error) {
	list := standard
	if r.contenders != nil {
		list = r.contenders
	}
	var records []*record
	for _, c := range available(list(o)) {
		records = append(records, &record{contender: c})
	}
	var late time.Duration
	for i := range o.runs {
		for _, rec := range records {
			if rec.spent() > enough {
				continue
			}
			t, err := rec.trace(ctx, r.build(uint64(i+1)), o)
			if err != nil {
				return nil, 0, fmt.Errorf("%s: %s: %w", r.name, rec.name, err)
			}
			if o.verbose {
				fmt.Fprintf(os.Stderr, "%s: %s: %v, %d packets, late %v %s\n", r.name, rec.name, t.wall, t.packets, t.lateness, t.wrong)
			}
			rec.runs = append(rec.runs, t)
			late = max(late, t.lateness)
		}
	}
	return records, late, nil
}

// pathTable runs a row and judges it.
func pathTable(ctx context.Context, o *options, r row) (*table, error) {
	records, late, err := compete(ctx, o, r)
	if err != nil {
		return nil, err
	}
	t := &table{title: "path/" + r.name + ": " + r.title, columns: []string{"", "runs", "wall", "packets", "right", "ours/this", "packets ours/this"}}
	for _, rec := range records {
		n, wrong := rec.right()
		wall := millis(rec.wall())
		if !rec.ended() {
			wall = "> " + wall
		}
		cells := []string{rec.name, fmt.Sprint(len(rec.runs)), wall, fmt.Sprintf("%.0f", rec.packets()), fmt.Sprintf("%d/%d", n, len(rec.runs)), "", ""}
		if us := find(records, rec.probes); us != nil && !rec.ours {
			cells[5], cells[6] = ratio(us.wall(), rec.wall()), fmt.Sprintf("%.2f", us.packets()/max(rec.packets(), 1))
		}
		t.add(cells...)
		if wrong != "" {
			t.note("%s: %s", rec.name, wrong)
		}
	}
	r.goals(t, records)
	t.note("the lab was late for an event by %s at most", millis(late))
	return t, nil
}

// find returns our program with so many probes a hop.
func find(records []*record, probes int) *record {
	for _, r := range records {
		if r.ours && r.library == nil && r.probes == probes {
			return r
		}
	}
	return nil
}

// fastest returns the fastest peer with so many probes a hop. One that printed
// a path that does not exist is none; one that was ended before it had printed
// anything took at least that long.
func fastest(records []*record, probes int) (best *record) {
	for _, p := range records {
		n, _ := p.right()
		if p.ours || p.probes != probes || p.ended() && n < len(p.runs) {
			continue
		}
		if best == nil || p.wall() < best.wall() {
			best = p
		}
	}
	return best
}

// goals holds the row against what is promised.
func (r row) goals(t *table, records []*record) {
	rtt := r.build(1).rtt
	if one := find(records, 1); one != nil {
		within := r.within
		promise := fmt.Sprintf("one pass within %s", millis(within))
		if within == 0 {
			within = rtt * 11 / 10
			promise = fmt.Sprintf("one pass within 1.1 × the largest round trip, %s", millis(within))
		}
		t.promise(one.wall() <= within, millis(one.wall()), "%s", promise)
	}
	if three := find(records, 3); three != nil && !r.silent {
		within := 3*rtt + 250*time.Millisecond
		t.promise(three.wall() <= within, millis(three.wall()), "three probes a hop within 3 × the largest round trip + 250 ms, %s", millis(within))
	}
	for _, probes := range []int{1, 3, 10} {
		us, best := find(records, probes), fastest(records, probes)
		if us != nil && best != nil {
			t.promise(us.wall() <= best.wall(), ratio(us.wall(), best.wall()), "%d a hop, no slower than the fastest peer that is right, %s", probes, best.name)
		}
	}
	for _, rec := range records {
		if n, _ := rec.right(); rec.ours && n < len(rec.runs) {
			t.promise(false, fmt.Sprintf("%d of %d", n, len(rec.runs)), "%s: every path right", rec.name)
		}
	}
}
