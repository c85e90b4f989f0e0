package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"

	"golang.org/x/net/html"

	"github.com/whyslow/whyslow/internal/netlab/servers"
)

// What strangers decide: a terminal's title and colours, a right-to-left
// override, HTML, Markdown.
const (
	hostile = "\x1b]0;owned\x07\x1b[31m\u202egnp.exe</style></svg><script>alert(1)</script><img src=x onerror=alert(2)>[x](javascript:3)|`# h"
	// inZone is the same as a zone file writes it.
	inZone = `\027]0\;owned\007\027[31m\226\128\174\<script\>alert\(1\)\</script\>[x]\(javascript:3\)|\` + "`" + `#.example.`
	// inURL is what of it a URL can hold.
	inURL = "/landed?a=\"><script>alert(1)</script><img/src=x/onerror=alert(2)>[x](javascript:3)|`*b*`\u202e"
)

// Every name and header that a stranger decides arrives, and arrives harmless,
// in every format of the program's output.
func TestStrangersTextIsHarmless(t *testing.T) {
	// A location is either followed, or no URL at all.
	for name, location := range map[string]string{"followed": inURL, "no URL": "http://%zz/" + hostile} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, 4*time.Millisecond)
			l.serveDNS(t, zones(
				servers.Zone{Origin: "100.51.198.in-addr.arpa", Records: []string{"* 300 IN PTR " + inZone}},
				servers.Zone{Origin: "113.0.203.in-addr.arpa", Records: []string{"80 300 IN PTR " + inZone}},
			))
			header := http.Header{"Content-Type": {hostile}, "Server-Timing": {`db;dur=5;desc="` + strings.ReplaceAll(hostile, `"`, "") + `"`}, "Retry-After": {hostile}}
			l.serveHTTP(t, servers.HTTPConfig{Banner: hostile, Routes: map[string]servers.Route{
				"/":       {Redirect: location, Header: header},
				"/landed": {Size: 1000, Header: header},
			}})
			p, forms := l.forms(t, "report", "http://"+site+"/", "--budget", "quick", "--verbose", "--color", "always")
			if name == "followed" && p.status() != 0 || name != "followed" && p.status() != 4 {
				t.Errorf("status %d, stderr %q", p.status(), forms["stderr"])
			}
			for form, out := range forms {
				if err := harmless(form, out); err != "" {
					t.Errorf("%s: %s", form, err)
				}
				// A table shortens long names, behind this word of theirs.
				if form != "stderr" && strings.Count(out, "owned") < 2 {
					t.Errorf("%s: the strangers' text is gone instead of harmless:\n%s", form, out)
				}
			}
			arrived(t, forms["json"])
			// A saved report is no less hostile.
			for _, form := range []string{"text", "json", "markdown", "html"} {
				path, err := l.WriteFile("saved.json", []byte(forms["json"]))
				if err != nil {
					t.Fatal(err)
				}
				shown := l.run(t, "show", path, "--format", form)
				if err := harmless(form, shown.out.String()); err != "" || shown.status() != 0 {
					t.Errorf("show as %s: status %d, %s", form, shown.status(), err)
				}
			}
		})
	}
}

// arrived fails unless each stranger was heard.
func arrived(t *testing.T, doc string) {
	t.Helper()
	var r struct {
		Trace struct {
			Hops []struct{ Replies []struct{ Name string } }
		}
		DNS struct{ Reverse []struct{ Names []string } }
	}
	if err := json.Unmarshal([]byte(doc), &r); err != nil {
		t.Fatal(err)
	}
	router, server := false, false
	for _, h := range r.Trace.Hops {
		for _, a := range h.Replies {
			router = router || strings.Contains(a.Name, "script")
		}
	}
	for _, rev := range r.DNS.Reverse {
		server = server || strings.Contains(strings.Join(rev.Names, " "), "script")
	}
	if !router || !server || !strings.Contains(doc, `"server_header": "`) || !strings.Contains(doc, `"location": "`) {
		t.Errorf("router's name %v, server's name %v, in\n%s", router, server, doc)
	}
}

// colours are the only escapes that the program itself writes.
var colours = regexp.MustCompile("\x1b\\[[0-9;]*m")

// harmless says what in an output could be more than words, "" if nothing.
func harmless(form, out string) string {
	plain := out
	if form == "stdout" {
		plain = colours.ReplaceAllString(out, "")
	}
	for _, r := range plain {
		if r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || unicode.Is(unicode.Cf, r)) {
			return fmt.Sprintf("holds %U: %q", r, around(plain, string(r)))
		}
	}
	switch form {
	case "json":
		if !json.Valid([]byte(out)) {
			return "is not JSON"
		}
		if strings.Contains(out, "<script") {
			return "would end a script element it was put into"
		}
	case "html":
		return harmlessHTML(out)
	case "markdown":
		return harmlessMarkdown(out)
	}
	return ""
}

func around(s, part string) string {
	i := strings.Index(s, part)
	return strings.ToValidUTF8(s[max(0, i-60):min(len(s), i+60)], "")
}

func harmlessHTML(out string) string {
	for z := html.NewTokenizer(strings.NewReader(out)); z.Next() != html.ErrorToken; {
		tok := z.Token()
		if tok.Type != html.StartTagToken && tok.Type != html.SelfClosingTagToken {
			continue
		}
		if tok.Data == "script" || tok.Data == "img" || tok.Data == "iframe" || tok.Data == "link" {
			return "has the element " + tok.String()
		}
		for _, a := range tok.Attr {
			if strings.HasPrefix(a.Key, "on") || a.Key == "src" || a.Key == "href" && !strings.HasPrefix(a.Val, "#") {
				return "has the attribute " + a.Key + " in " + tok.String()
			}
		}
	}
	return ""
}

var codeSpan = regexp.MustCompile("`[^`\n]+`")

func harmlessMarkdown(out string) string {
	fenced := false
	for _, line := range strings.Split(out, "\n") {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
			continue
		}
		words := codeSpan.ReplaceAllString(line, "")
		if !fenced && (strings.Contains(words, "](") || strings.Contains(words, "<script") || strings.Contains(words, "<img")) {
			return "has markup in " + line
		}
	}
	if fenced {
		return "leaves a code block open"
	}
	return ""
}
