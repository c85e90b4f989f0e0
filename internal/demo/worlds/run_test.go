package worlds

import (
	"context"
	"encoding/json"
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
	only  = flag.String("worlds.kinds", "", "comma separated")
	seeds = flag.String("worlds.seeds", "1", "from-to")
	out   = flag.String("worlds.out", "", "file of JSON lines")
	dump  = flag.String("worlds.dump", "", "folder for whole reports")
)

func TestMain(m *testing.M) { os.Exit(netlab.Main(m)) }

type line struct {
	Kind, Story, Got, Where, Summary string
	Seed                             uint64
	Want                             []string
	Conf                             float64
	Right, PlaceOK, Slow             bool
	Seconds                          float64
	Typical                          float64
	Err                              string
}

var linkRE = regexp.MustCompile(`link (\d+)-(\d+)`)

func (w *world) judge(v reports.Verdict) line {
	got := "null"
	if v.Component != nil {
		got = *v.Component
	}
	l := line{Kind: w.kind, Seed: w.seed, Story: w.story, Got: string(v.Layer) + "/" + got, Where: v.Where, Summary: v.Summary, Conf: v.Confidence, PlaceOK: true, Slow: v.Slow,
		Typical: float64(v.Typical.Duration()) / 1e6}
	for _, a := range w.right {
		l.Want = append(l.Want, string(a.layer)+"/"+a.component)
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

func TestWorlds(t *testing.T) {
	labtest.Need(t)
	list := slices.Sorted(maps.Keys(kinds))
	if *only != "" {
		list = strings.Split(*only, ",")
	}
	from, to, found := strings.Cut(*seeds, "-")
	if !found {
		to = from
	}
	a, _ := strconv.ParseUint(from, 10, 64)
	b, _ := strconv.ParseUint(to, 10, 64)
	var file *os.File
	if *out != "" {
		var err error
		if file, err = os.OpenFile(*out, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644); err != nil {
			t.Fatal(err)
		}
		defer file.Close()
	}
	for seed := a; seed <= b; seed++ {
		for _, kind := range list {
			l := run1(t, kind, seed)
			mark := "ok "
			if !l.Right {
				mark = "BAD"
			} else if !l.PlaceOK {
				mark = "plc"
			}
			fmt.Printf("%s %-16s %3d want %-28s got %-28s %.2f %5.1fs %s | %s | %s %s\n", mark, kind, seed, strings.Join(l.Want, ","), l.Got, l.Conf, l.Seconds, l.Where, l.Story, l.Summary, l.Err)
			if file != nil {
				j, _ := json.Marshal(l)
				_, _ = file.Write(append(j, '\n'))
			}
		}
	}
}

func run1(t *testing.T, kind string, seed uint64) line {
	w := newWorld(kind, seed)
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	opt, done, err := w.stand(ctx)
	defer func() { _ = done() }()
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
		j, _ := json.MarshalIndent(rep, "", " ")
		_ = os.WriteFile(fmt.Sprintf("%s/%s-%d.json", *dump, kind, seed), j, 0o644)
	}
	return l
}
