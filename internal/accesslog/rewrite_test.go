package accesslog

import (
	"net/netip"
	"strings"
	"testing"
)

func TestRewriterChangesTheClientOnly(t *testing.T) {
	names := map[string]string{"192.0.2.1": "abc.example.com.", "2001:db8::1": "v6.example.com", "192.0.2.2": "x\" 200 1\n192.0.2.9",
		"192.0.2.3": "198.51.100.1", "192.0.2.6": "2001:db8::66", "192.0.2.7": "[2001:db8::66]:80",
		"192.0.2.4": "7", "192.0.2.5": strings.Repeat("a", 300)}
	lookup := func(a netip.Addr) (string, bool) { n, ok := names[a.String()]; return n, ok }
	rest := ` - - ` + stamp + ` "GET / HTTP/1.1" 200 1`
	tests := []struct{ name, format, in, out string }{
		{"a name that begins with a hex digit", "common", "192.0.2.1" + rest + "\n", "abc.example.com" + rest + "\n"},
		{"names stay", "common", "dead.example.com" + rest + "\r\n", "dead.example.com" + rest + "\r\n"},
		{"7 is not 0.0.0.7", "common", "7" + rest + "\n", "7" + rest + "\n"},
		{"vhost_combined", "vhost_combined", "h.example:80 192.0.2.1" + rest + ` "-" "x"`, "h.example:80 abc.example.com" + rest + ` "-" "x"`},
		{"v6", "common", "2001:db8::1" + rest, "v6.example.com" + rest},
		{"mapped", "common", "::ffff:192.0.2.1" + rest, "abc.example.com" + rest},
		{"no name", "common", "192.0.2.200" + rest + "\n", "192.0.2.200" + rest + "\n"},
		{"a hostile name cannot forge a line", "common", "192.0.2.2" + rest + "\n", `x\x22\x20200\x201\x0a192.0.2.9` + rest + "\n"},
		{"nor in JSON", "json", `{"ip":"192.0.2.2","status":200}`, `{"ip":"x\\x22\\x20200\\x201\\x0a192.0.2.9","status":200}`},
		{"nor be another's address", "common", "192.0.2.3" + rest, "192.0.2.3" + rest},
		{"nor one of IPv6", "common", "192.0.2.6" + rest, "192.0.2.6" + rest},
		{"nor one with a port", "common", "192.0.2.7" + rest, "192.0.2.7" + rest},
		{"nor a number", "common", "192.0.2.4" + rest, "192.0.2.4" + rest},
		{"too long", "common", "192.0.2.5" + rest, "192.0.2.5" + rest},
		{"broken lines stay", "common", "192.0.2.1 rubbish\x00\n\n\r\n", "192.0.2.1 rubbish\x00\n\n\r\n"},
		{"NULs before a line stay", "common", "\x00\x00192.0.2.1" + rest + "\n", "\x00\x00abc.example.com" + rest + "\n"},
		{"the port stays", "%a %t", "192.0.2.1:4711 " + stamp, "abc.example.com:4711 " + stamp},
		{"in brackets", "%a %t", "[2001:db8::1]:4711 " + stamp, "v6.example.com:4711 " + stamp},
		{"JSON", "json", `{"status":200, "remote_addr" : "192.0.2.1"}`, `{"status":200, "remote_addr" : "abc.example.com"}`},
		{"longer than any line", "common", strings.Repeat("x", 3*MaxLine) + "\n192.0.2.1" + rest, strings.Repeat("x", 3*MaxLine) + "\nabc.example.com" + rest},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, err := ParseFormat(tt.format, CompileOptions{})
			if err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			done, err := NewRewriter(f, lookup).Copy(&out, strings.NewReader(tt.in))
			if err != nil {
				t.Fatal(err)
			}
			if out.String() != tt.out {
				t.Errorf("got  %.200q\nwant %.200q", out.String(), tt.out)
			}
			if done.Lines == 0 || done.Named+done.Unnamed+done.Other != done.Lines || (done.Named > 0) != (tt.in != tt.out) {
				t.Errorf("counted %+v", done)
			}
		})
	}
}

// A whole rotated set, of which one is compressed, one lacks its last line end
// and one is damaged, becomes one log with names.
func TestRewriteOfAWholeSet(t *testing.T) {
	first, second := combinedLine("192.0.2.1", 1)+"rubbish\n", strings.TrimSuffix(combinedLine("192.0.2.2", 2), "\n")
	many := combinedLog(3000)
	cut := gzipped(t, many)
	dir := t.TempDir()
	sources := []Source{File(write(t, dir, "a.3", gzipped(t, first))), File(write(t, dir, "a.2", second)), File(write(t, dir, "a.1", "")), File(write(t, dir, "a.15", "nothing but\nrubbish\n")),
		File(write(t, dir, "a.0", utf8BOM+`{"ip":"192.0.2.3","status":200}`+"\n")), File(write(t, dir, "a", cut[:len(cut)/2]))}
	var out strings.Builder
	done, err := Rewrite(t.Context(), &out, Options{}, func(a netip.Addr) (string, bool) { return "n" + a.String() + ".example", a.String() != "192.0.2.2" }, sources...)
	if err != nil {
		t.Fatal(err)
	}
	got := out.String()
	want := strings.Replace(first, "192.0.2.1", "n192.0.2.1.example", 1) + second + "\nnothing but\nrubbish\n" + utf8BOM + `{"ip":"n192.0.2.3.example","status":200}` + "\n"
	if !strings.HasPrefix(got, want) {
		t.Errorf("got  %.500q\nwant %.500q", got, want)
	}
	back := strings.ReplaceAll(strings.ReplaceAll(got[min(len(got), len(want)):], ".example", ""), "n192.0.2.", "192.0.2.")
	if len(back) < 1000 || !strings.HasPrefix(many, back) {
		t.Errorf("of the damaged file came %d bytes: %.200q", len(back), back)
	}
	if len(done.Warnings) != 1 || !strings.Contains(done.Warnings[0], "unexpected EOF") || done.Unnamed < 2 || done.Other < 1 || done.Named < 10 {
		t.Errorf("%+v", done)
	}
}
