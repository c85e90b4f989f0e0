// Package worlds tests the whole diagnosis on networks and servers that share
// nothing with those of the demo but the packets' carrier: other topologies,
// magnitudes over wider ranges, a web server of its own, real daemons.
package worlds

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/whyslow/whyslow/internal/diagnose"
	"github.com/whyslow/whyslow/internal/netlab"
	"github.com/whyslow/whyslow/internal/netlab/labtest"
	"github.com/whyslow/whyslow/reports"
)

var (
	only  = flag.String("worlds.kinds", "", "kinds to run, comma separated, or \"all\"; empty means a small sample")
	seeds = flag.String("worlds.seeds", "1", "seeds to run, from-to")
	out   = flag.String("worlds.out", "", "file that gets a JSON line for each world")
	again = flag.String("worlds.rejudge", "", "folder of whole reports to judge again, instead of measuring")
	dump  = flag.String("worlds.dump", "", "folder that gets the whole reports")
)

func TestMain(m *testing.M) { os.Exit(netlab.Main(m)) }

// sample are the kinds that run where nobody asks for others: large faults of
// each layer and healthy worlds that look odd, about 40 s in all.
const sample = "near,odd-routers,cold-cache,slow-link,jitter,loss-small,slow-authority,think-far,redirect-slow,lookup-log,accept,drip"

// line is what became of one world.
type line struct {
	Kind, Story, Got, Where, Summary string
	Seed                             uint64
	Want                             []string
	Conf                             float64
	Right                            bool // layer and component
	LayerOK, PlaceOK, Slow           bool
	Seconds, Typical                 float64
	Err                              string
}

func (l line) String() string {
	mark := "right"
	switch {
	case l.Err != "":
		mark = "error"
	case !l.Right:
		mark = "WRONG"
	case !l.PlaceOK:
		mark = "place"
	}
	return fmt.Sprintf("%s %-18s %3d want %-28s got %-26s %.2f %5.1f s %s | %s | %s %s", mark, l.Kind, l.Seed,
		strings.Join(l.Want, ","), l.Got, l.Conf, l.Seconds, l.Where, l.Story, l.Summary, l.Err)
}

var linkRE = regexp.MustCompile(`link (\d+)-(\d+)`)

// judge holds a verdict against the truth.
func (w *world) judge(v reports.Verdict) line {
	got := "null"
	if v.Component != nil {
		got = *v.Component
	}
	l := line{Kind: w.kind, Seed: w.seed, Story: w.story, Got: string(v.Layer) + "/" + got, Where: v.Where, Summary: v.Summary, Conf: v.Confidence, PlaceOK: true, Slow: v.Slow,
		Typical: float64(v.Typical.Duration()) / 1e6}
	for _, a := range w.right {
		l.Want = append(l.Want, string(a.layer)+"/"+a.component)
		l.LayerOK = l.LayerOK || a.layer == v.Layer
		l.Right = l.Right || a.layer == v.Layer && a.component == got
	}
	if w.link >= 0 && v.Layer == reports.Network {
		m := linkRE.FindStringSubmatch(v.Where)
		l.PlaceOK = m != nil
		if m != nil {
			a, _ := strconv.Atoi(m[1])
			b, _ := strconv.Atoi(m[2])
			l.PlaceOK = a <= w.link && b >= w.link+1
		}
	}
	if w.place != "" && l.Right {
		l.PlaceOK = strings.Contains(v.Where, w.place)
	}
	return l
}

// TestWorlds diagnoses worlds that were built without the demo's code and
// without its limits. A verdict that names a wrong layer and is sure of it
// fails; so does one in five that is wrong at all. Far more is measured with
//
//	go test ./internal/demo/worlds -timeout 0 -v -worlds.kinds all -worlds.seeds 1-5
func TestWorlds(t *testing.T) {
	labtest.Need(t)
	names := strings.Split(sample, ",")
	switch *only {
	case "":
	case "all":
		names = slices.Sorted(maps.Keys(kinds()))
	default:
		names = strings.Split(*only, ",")
	}
	from, to, found := strings.Cut(*seeds, "-")
	if !found {
		to = from
	}
	first, err1 := strconv.ParseUint(from, 10, 64)
	last, err2 := strconv.ParseUint(to, 10, 64)
	if err1 != nil || err2 != nil {
		t.Fatalf("-worlds.seeds %q is no number and no range", *seeds)
	}
	var lines []line
	for seed := first; seed <= last; seed++ {
		for _, kind := range names {
			l, ok := observe(t, kind, seed)
			if !ok {
				continue
			}
			t.Log(l)
			keep(t, l)
			lines = append(lines, l)
		}
	}
	reliability(t, lines)
}

// observe measures a world, or judges the report of it again.
func observe(t *testing.T, kind string, seed uint64) (line, bool) {
	if kinds()[kind] == nil {
		t.Fatalf("there is no kind %q", kind)
	}
	if *again != "" {
		return rejudge(kind, seed)
	}
	return measure(t, kind, seed), true
}

// keep appends a line to the file that was asked for.
func keep(t *testing.T, l line) {
	if *out == "" {
		return
	}
	b, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(*out, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Write(append(b, '\n'))
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// reliability says how often verdicts of a confidence were right, and fails
// the test where they were not what they claim.
func reliability(t *testing.T, lines []line) {
	bins := []float64{0, 0.5, 0.7, 0.8, 0.9, 1.01}
	wrong := 0
	for i := range len(bins) - 1 {
		n, right, layer := 0, 0, 0
		for _, l := range lines {
			if l.Conf < bins[i] || l.Conf >= bins[i+1] || l.Err != "" {
				continue
			}
			n++
			if l.Right {
				right++
			}
			if l.LayerOK {
				layer++
			}
		}
		t.Logf("confidence %.1f to %.1f: %d verdicts, %d right, %d of the right layer", bins[i], min(bins[i+1], 1), n, right, layer)
	}
	for _, l := range lines {
		switch {
		case l.Err != "":
			t.Errorf("world can't be measured: %s", l)
		case !l.LayerOK && l.Conf >= 0.8:
			t.Errorf("sure of a wrong layer: %s", l)
		case !l.Right:
			wrong++
		}
	}
	if 5*wrong > len(lines) {
		t.Errorf("%d of %d verdicts are wrong", wrong, len(lines))
	}
}

// rejudge judges a report that was kept.
func rejudge(kind string, seed uint64) (line, bool) {
	b, err := os.ReadFile(fmt.Sprintf("%s/%s-%d.json", *again, kind, seed))
	if err != nil {
		return line{}, false
	}
	var rep reports.Report
	if err := json.Unmarshal(b, &rep); err != nil {
		return line{Kind: kind, Seed: seed, Err: err.Error()}, true
	}
	l := newWorld(kind, seed).judge(reports.Judge(&rep))
	l.Seconds = float64(rep.Elapsed.Duration()) / 1e9
	return l, true
}

// measure builds a world, diagnoses it and takes it down.
func measure(t *testing.T, kind string, seed uint64) line {
	w := newWorld(kind, seed)
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	opt, done, err := w.stand(ctx)
	defer func() {
		if err := done(); err != nil {
			t.Errorf("taking down %s: %v", kind, err)
		}
	}()
	if err != nil {
		return line{Kind: kind, Seed: seed, Story: w.story, Err: err.Error()}
	}
	begin := time.Now()
	rep, err := diagnose.Run(ctx, opt)
	if err != nil {
		return line{Kind: kind, Seed: seed, Story: w.story, Err: err.Error()}
	}
	l := w.judge(rep.Verdict)
	l.Seconds = time.Since(begin).Seconds()
	if *dump != "" {
		b, err := json.MarshalIndent(rep, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(fmt.Sprintf("%s/%s-%d.json", *dump, kind, seed), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return l
}
