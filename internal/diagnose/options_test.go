package diagnose

import (
	"strings"
	"testing"
)

// A query without "=" was told whole on the command line and in the exchanges,
// and with a "=" of our own in the target.
func TestBareQueriesAreMaskedAlikeEverywhere(t *testing.T) {
	tests := []struct{ in, want string }{
		{"http://h/?TOK5", "http://h/?…"},
		{"http://h/?TOK5=", "http://h/?…"},
		{"http://h/?dG9rZW4==", "http://h/?…"},
		{"http://h/?a=b&TOK5&c=d=e", "http://h/?a=…&…&c=…"},
		{"http://h/?a=&b", "http://h/?…&…"},
		{"http://h/?=b", "http://h/?=…"},
		{"http://h/?", "http://h/?"},
		{"http://h/#token=x", "http://h/"},
		{"http://h/a?b=c#token=x?y", "http://h/a?b=…"},
		{"http://h/?a=http://x/?b", "http://h/?a=…"},
		{"h/?next=https://u:p@x/", "h/?next=…"},
		{"https://u:p@h:8/p@x", "https://…@h:8/p@x"},
		{"https://u:p@w@h/", "https://…@h/"},
		{"u:p@h", "…@h"},
		{"/b?key=xyz", "/b?key=…"},
		{"www.example.com", "www.example.com"},
		{"--resolv-conf", "--resolv-conf"},
		{"", ""},
	}
	for _, tt := range tests {
		got := Redacted(tt.in)
		if got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.in, got, tt.want)
		}
		if again := Redacted(got); again != got && !strings.Contains(got, "?=") {
			t.Errorf("%q: masked twice it is %q", got, again)
		}
		if !strings.HasPrefix(tt.in, "http") {
			continue
		}
		target, err := parseTarget(tt.in)
		if err != nil {
			t.Fatal(err)
		}
		want := strings.Replace(tt.want, "…@", "", 1) // a target shows no user at all
		if view := target.view().URL; view != want {
			t.Errorf("%q: the target is %q, want %q", tt.in, view, want)
		}
	}
}

func TestSchemesInAQueryAreNone(t *testing.T) {
	for in, bare := range map[string]bool{
		"www.example.com": true, "www.example.com:8080/?next=https://x/": true, "h#http://x": true,
		"fe80::1%eth0": true, "[2001:db8::1]:80": true, "http://www.example.com": false, "HTTPS://h": false,
	} {
		got, err := parseTarget(in)
		if err != nil || got.bare != bare {
			t.Errorf("%s: bare %v, error %v", in, got.bare, err)
		}
	}
}

// The errors of a library that is given a wrong URL reach terminals too.
func TestTargetErrorsTellNoSecrets(t *testing.T) {
	for _, in := range []string{"ftp://al:HUNTER2@h/?SEK", "http://al:HUNTER2@h:99999/?key=SEK", "http://al:HUNTER2@/?SEK", "http://al:HUNTER2@[::1/?SEK"} {
		_, err := parseTarget(in)
		if err == nil || strings.Contains(err.Error(), "HUNTER") || strings.Contains(err.Error(), "SEK") {
			t.Errorf("%s: error %v", in, err)
		}
	}
}
