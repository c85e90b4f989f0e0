package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"time"

	"github.com/whyslow/whyslow/internal/netlab"
	"github.com/whyslow/whyslow/internal/simnet"
	"github.com/whyslow/whyslow/pmtu"
)

// narrow is a network whose path MTU is to be measured.
type narrow struct {
	name  string
	chain chain
	mtu   int
	// limiter is the last hop a packet of one byte more reaches.
	limiter int
	// forge, if not 0, is the MTU that someone who sees the probes claims.
	forge int
	quick bool // also part of --quick
}

// narrowAt gives the link to a hop, both ways, an MTU.
func narrowAt(mtus map[int]int) func(int, *simnet.Link, *simnet.Link) {
	return func(ttl int, there, back *simnet.Link) {
		if m := mtus[ttl]; m > 0 {
			there.MTU, back.MTU = m, m
		}
	}
}

// router changes the router at a TTL.
func routerAt(at int, change func(*simRouter)) func(int, *simRouter) {
	return func(ttl int, r *simRouter) {
		if ttl == at {
			change(r)
		}
	}
}

func lying(claim int) func(*simRouter) {
	return func(r *simRouter) { r.TooBig, r.TooBigClaim = simnet.Lying, claim }
}

func silentAboutSize(r *simRouter) { r.TooBig = simnet.Absent }

// narrows are the cases. Unless it says otherwise, the link from hop 4 to 5
// carries 1400 bytes.
func narrows() []narrow {
	at5 := narrowAt(map[int]int{5: 1400})
	return []narrow{
		{name: "honest", chain: chain{link: at5}, mtu: 1400, limiter: 4, quick: true},
		{name: "claims-0", chain: chain{link: at5, router: routerAt(4, lying(0))}, mtu: 1400, limiter: 4},
		{name: "claims-68", chain: chain{link: at5, router: routerAt(4, lying(68))}, mtu: 1400, limiter: 4, quick: true},
		{name: "claims-1500", chain: chain{link: at5, router: routerAt(4, lying(1500))}, mtu: 1400, limiter: 4},
		{name: "claims-1600", chain: chain{link: at5, router: routerAt(4, lying(1600))}, mtu: 1400, limiter: 4},
		{name: "black-hole-4", chain: chain{link: at5, router: routerAt(4, silentAboutSize)}, mtu: 1400, limiter: 4, quick: true},
		{name: "black-hole-9", chain: chain{link: narrowAt(map[int]int{10: 1420}), router: routerAt(9, silentAboutSize)}, mtu: 1420, limiter: 9},
		{name: "two-narrowings", chain: chain{link: narrowAt(map[int]int{4: 1450, 9: 1380})}, mtu: 1380, limiter: 8},
		{name: "asymmetric", mtu: 1400, limiter: 4, chain: chain{link: func(ttl int, there, back *simnet.Link) {
			if ttl == 5 {
				there.MTU, back.MTU = 1400, 1300
			}
		}}},
		{name: "v6", chain: chain{v6: true, link: at5}, mtu: 1400, limiter: 4, quick: true},
		{name: "v6-black-hole", chain: chain{v6: true, link: at5, router: routerAt(4, silentAboutSize)}, mtu: 1400, limiter: 4},
		{name: "jumbo", mtu: 1500, limiter: 5, chain: chain{link: func(ttl int, there, back *simnet.Link) {
			if ttl <= 5 {
				there.MTU, back.MTU = 9000, 9000
			}
		}}},
		{name: "forged", chain: chain{}, mtu: 1500, forge: 600, quick: true},
	}
}

func narrowNames() []string {
	var names []string
	for _, n := range narrows() {
		names = append(names, n.name)
	}
	return names
}

// sizer is a program that measures path MTUs.
type sizer struct {
	name    string
	command func(w *world) command
	mtu     func(stdout string) (mtu, limiter int)
	frames  bool // writes Ethernet frames
	ours    bool
}

func sizers(o *options) []sizer {
	return []sizer{
		{name: "whyslow pmtu --no-http", ours: true, mtu: ourMTU, command: func(w *world) command {
			return command{path: o.binary, args: []string{"pmtu", "--no-http", "--json", w.dst.String()}}
		}},
		{name: "tracepath", mtu: lastMTU(regexp.MustCompile(`pmtu (\d+)`)), command: func(w *world) command {
			return command{path: "tracepath", args: []string{"-n", w.dst.String()}}
		}},
		{name: "traceroute --mtu", mtu: lastMTU(regexp.MustCompile(`F=(\d+)`)), command: func(w *world) command {
			return command{path: "traceroute", args: []string{"-n", "--mtu", w.dst.String()}}
		}},
		{name: "scamper -M", frames: true, mtu: lastMTU(regexp.MustCompile(`\[\*?mtu: (\d+)`)), command: func(w *world) command {
			return command{path: "scamper", args: []string{"-p", "1000", "-I", "trace -P udp-paris -M " + w.dst.String()}}
		}},
	}
}

func ourMTU(stdout string) (mtu, limiter int) {
	var res pmtu.Result
	if json.Unmarshal([]byte(stdout), &res) != nil {
		return 0, 0
	}
	if res.MTU != nil {
		mtu = *res.MTU
	}
	if res.Limiter != nil {
		limiter = res.Limiter.TTL
	}
	return mtu, limiter
}

// lastMTU reads the last number that a program printed in a form.
func lastMTU(form *regexp.Regexp) func(string) (int, int) {
	return func(stdout string) (mtu, _ int) {
		if all := form.FindAllStringSubmatch(stdout, -1); len(all) > 0 {
			mtu, _ = strconv.Atoi(all[len(all)-1][1])
		}
		return mtu, 0
	}
}

// run measures one path MTU.
func (s sizer) run(ctx context.Context, o *options, n narrow) (outcome, error) {
	w := n.chain.build(1)
	carrier := netlab.AutoCarrier
	if s.frames {
		carrier = netlab.Veth
	}
	lab, err := w.labOver(carrier)
	if err != nil {
		return outcome{}, err
	}
	defer func() { _ = lab.Close() }()
	if s.frames {
		if err := neighbour(w.dst); err != nil {
			return outcome{}, err
		}
	}
	if n.forge > 0 {
		stop, err := forge(w, lab, n.forge)
		if err != nil {
			return outcome{}, err
		}
		defer stop()
	}
	return performIn(ctx, lab, s.command(w), min(o.patience, tableTime))
}

func runPMTU(ctx context.Context, o *options, emit func(*table) error) error {
	t := &table{title: "pmtu: the path MTU of the way there, 12 hops with 60 ms", columns: []string{"", "is", "", "said", "right", "packets", "wall", "ours/this"}}
	exact, all := 0, 0
	var most int
	var longest time.Duration
	located, toLocate := 0, 0
	for _, n := range narrows() {
		if !o.wants("pmtu", n.name, n.quick || !o.quick) {
			continue
		}
		var us time.Duration
		for _, s := range sizers(o) {
			if _, err := netlab.LookPath(s.command(&world{}).path); err != nil {
				continue
			}
			out, err := s.run(ctx, o, n)
			if err != nil {
				return fmt.Errorf("%s: %s: %w", n.name, s.name, err)
			}
			if o.verbose {
				fmt.Fprintf(os.Stderr, "pmtu: %s: %s: %v %d packets\n%s%s", n.name, s.name, out.wall, out.packets, out.stdout, out.stderr)
			}
			mtu, limiter := s.mtu(out.stdout)
			right := mtu == n.mtu && out.ended
			cells := []string{n.name, fmt.Sprint(n.mtu), s.name, said(mtu), yes(right), fmt.Sprint(out.packets), bounded(out), ""}
			if s.ours {
				all++
				us = out.wall
				if right {
					exact++
				}
				if n.limiter > 0 {
					toLocate++
					if limiter == n.limiter {
						located++
					}
				}
				most, longest = max(most, out.packets), max(longest, out.wall)
			} else {
				cells[0], cells[1], cells[7] = "", "", ratio(us, out.wall)
			}
			t.add(cells...)
		}
	}
	within := 5*60*time.Millisecond + 300*time.Millisecond
	t.promise(exact == all, fmt.Sprintf("%d of %d", exact, all), "exact in every case")
	t.promise(located == toLocate, fmt.Sprintf("%d of %d", located, toLocate), "the hop that limits is found")
	t.promise(most <= 40+2*12, fmt.Sprint(most), "at most 40 packets, and 2 a hop to locate: %d", 40+2*12)
	t.promise(longest <= within, millis(longest), "within 5 round trips + 300 ms, %s", millis(within))
	return emit(t)
}

func said(mtu int) string {
	if mtu == 0 {
		return "nothing"
	}
	return fmt.Sprint(mtu)
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// bounded is a wall time, marked if the program was ended.
func bounded(out outcome) string {
	if !out.ended {
		return "> " + millis(out.wall)
	}
	return millis(out.wall)
}
