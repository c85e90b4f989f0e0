package render_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/rivo/uniseg"

	"github.com/whyslow/whyslow/reports/render"
)

func TestByName(t *testing.T) {
	r := readSample(t, "testdata/failed-nxdomain")
	starts := map[string]string{
		"text": "DNS: There", "TXT": "DNS: There", "json": "{\n", "Markdown": "**DNS.**", "md": "**DNS.**", "html": "<!doctype html>", "htm": "<!doctype html>",
	}
	for name, want := range starts {
		for how, lookup := range map[string]func() (render.Func, error){
			"name":      func() (render.Func, error) { return render.ByName(name) },
			"extension": func() (render.Func, error) { return render.ByExtension("/var/tmp/a.b/incident." + name) },
		} {
			fn, err := lookup()
			if err != nil {
				t.Errorf("%s %s: %v", how, name, err)
				continue
			}
			var b bytes.Buffer
			if err := fn(&b, r, render.Options{}); err != nil || !strings.HasPrefix(b.String(), want) {
				t.Errorf("%s %s: %v, %.30q", how, name, err, b.String())
			}
		}
	}
	for _, name := range []string{"", "pdf", "incident"} {
		if _, err := render.ByName(name); err == nil || !strings.Contains(err.Error(), "want text, json, markdown or html") {
			t.Errorf("ByName(%q): %v", name, err)
		}
		if _, err := render.ByExtension("x/" + name); err == nil || !strings.Contains(err.Error(), "want .txt, .json, .md or .html") {
			t.Errorf("ByExtension(%q): %v", name, err)
		}
	}
	for _, name := range render.Names() {
		if _, err := render.ByName(name); err != nil {
			t.Error(err)
		}
	}
}

// The forms of a single instrument say the same as its section of a report.
func TestSingleInstruments(t *testing.T) {
	want := map[string][]string{
		"trace": {"Path", "198.51.100.77", "edge-fra.tr", "R1"},
		"pmtu":  {"Path MTU", "1500 bytes pass, all that the interface allows"},
		"dns":   {"192.0.2.53:53", "NXDOMAIN", "www.example.com"},
		"http":  {"medians of 5 cold", "receive", "mss-clamp", "least round trip"},
	}
	eachSingle(t, readSample(t, "testdata/network-loss"), func(instrument, form, out string) {
		if err := checkOutput(form, out); err != nil {
			t.Errorf("%s %s: %v", instrument, form, err)
		}
		if form == "json" {
			if !strings.HasPrefix(out, "{\n  \"schema\": \"whyslow/"+instrument+"/1\",\n") {
				t.Errorf("%s json begins %.60q", instrument, out)
			}
			return
		}
		for _, text := range want[instrument] {
			if !strings.Contains(out, text) {
				t.Errorf("%s %s: no %q in\n%s", instrument, form, text, out)
			}
		}
	})
}

// No line is wider than the terminal, and colours change nothing but colour.
func TestTextWidthAndColor(t *testing.T) {
	sgr := regexp.MustCompile("\x1b\\[[0-9;]*m")
	for _, name := range samples(t) {
		r := readSample(t, name)
		for _, width := range []int{40, 60, 80, 132, 250} {
			var plain, color bytes.Buffer
			if err := render.Text(&plain, r, render.Options{Width: width, Verbose: true}); err != nil {
				t.Fatal(err)
			}
			if err := render.Text(&color, r, render.Options{Width: width, Verbose: true, Color: true}); err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(plain.String()) {
				line = strings.TrimSuffix(line, "\n")
				if w := uniseg.StringWidth(line); w > width {
					t.Errorf("%s at %d: a line of %d columns: %q", name, width, w, line)
				}
				if strings.TrimRight(line, " ") != line {
					t.Errorf("%s at %d: spaces at the end of %q", name, width, line)
				}
			}
			trimmed := regexp.MustCompile(` +\n`).ReplaceAllString(sgr.ReplaceAllString(color.String(), ""), "\n")
			if trimmed != plain.String() {
				t.Errorf("%s at %d: colours change the text", name, width)
			}
			if !sgr.Match(color.Bytes()) {
				t.Errorf("%s at %d: no colours", name, width)
			}
		}
	}
}

// The policy lets the browser use the style sheet of the page and nothing else.
func TestHTMLPolicy(t *testing.T) {
	var b bytes.Buffer
	if err := render.HTML(&b, readSample(t, "testdata/network-loss"), render.Options{}); err != nil {
		t.Fatal(err)
	}
	out := b.String()
	style := regexp.MustCompile(`(?s)<style>(.*?)</style>`).FindStringSubmatch(out)
	if style == nil {
		t.Fatal("no style sheet")
	}
	sum := sha256.Sum256([]byte(style[1]))
	policy := fmt.Sprintf(`content="default-src 'none'; style-src 'sha256-%s'; base-uri 'none'; form-action 'none'"`, base64.StdEncoding.EncodeToString(sum[:]))
	if !strings.Contains(strings.ReplaceAll(out, "&#43;", "+"), policy) {
		t.Errorf("no %s", policy)
	}
	if strings.Contains(style[1], "url(") || strings.Contains(style[1], "@import") {
		t.Error("the style sheet loads something")
	}
	if i, j := strings.Index(out, "Content-Security-Policy"), strings.Index(out, "<style>"); i < 0 || i > j {
		t.Error("the policy comes after what it governs")
	}
	for _, id := range regexp.MustCompile(`aria-labelledby="([^"]+)"`).FindAllStringSubmatch(out, -1) {
		for _, ref := range strings.Fields(id[1]) {
			if strings.Count(out, `id="`+ref+`"`) != 1 {
				t.Errorf("label %q stands %d times", ref, strings.Count(out, `id="`+ref+`"`))
			}
		}
	}
}

type brokenWriter struct{}

var errBroken = errors.New("disk full")

func (brokenWriter) Write([]byte) (int, error) { return 0, errBroken }

func TestWriteErrors(t *testing.T) {
	r := readSample(t, "testdata/failed-nxdomain")
	for _, name := range render.Names() {
		fn, err := render.ByName(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := fn(brokenWriter{}, r, render.Options{}); !errors.Is(err, errBroken) {
			t.Errorf("%s: %v, want %v", name, err, errBroken)
		}
	}
}
