package accesslog

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDetect(t *testing.T) {
	const (
		common   = `192.0.2.1 - - ` + stamp + ` "GET / HTTP/1.1" 200 5`
		combined = common + ` "-" "agent"`
		get      = `GET`
	)
	base := seen{Client: "192.0.2.1", Time: utc, Method: get, Path: "/", Protocol: "HTTP/1.1", Status: 200, Bytes: int64(5)}
	with := func(change func(*seen)) seen {
		s := base
		change(&s)
		return s
	}
	agent := with(func(s *seen) { s.Agent = "agent" })
	tests := []struct {
		name, line, format, note string
		want                     seen
	}{
		{"common", common, "common", "looks the same", base},
		{"combined", combined, "combined", "looks the same", agent},
		{"vhost_combined", "www.example.com:80 " + combined, "vhost_combined", "%O", with(func(s *seen) { s.Agent, s.VHost = "agent", "www.example.com" })},
		{"upstream's vhost_combined", "www.example.com " + combined, "vhost_combined_upstream", "", with(func(s *seen) { s.Agent, s.VHost = "agent", "www.example.com" })},
		{"vhost_common", "www.example.com " + common, "vhost_common", "", with(func(s *seen) { s.VHost = "www.example.com" })},
		{"nginx main", combined + ` "203.0.113.1, 192.0.2.5"`, "nginx_main", "", with(func(s *seen) { s.Agent, s.Forwarded = "agent", "203.0.113.1, 192.0.2.5" })},
		{"combinedio", combined + ` 100 200`, "combinedio", "", agent},
		{"request time", combined + ` 0.125`, "combined and request time", "", with(func(s *seen) { s.Agent, s.Duration = "agent", "125ms" })},
		{"a number, which may be anything", combined + ` 1503`, "combined and a number", "name the format", agent},
		{"a proxy's list first", strings.Replace(combined, "192.0.2.1", "203.0.113.1, 192.0.2.5", 1), "combined with a list of proxies' clients first", "",
			with(func(s *seen) { s.Client, s.Agent, s.Forwarded = "", "agent", "203.0.113.1, 192.0.2.5" })},
		{"Traefik", combined + ` 1 "router@docker" "http://10.0.0.1:80" 12ms`, "combined and more", "left aside", agent},
		{"ingress-nginx", combined + ` 300 0.125 [default-app-80] [] 10.0.0.1:80 5 0.124 200 0123abc`, "ingress-nginx", "", with(func(s *seen) { s.Agent, s.Duration = "agent", "125ms" })},
		{"syslog", "Oct 10 13:55:37 web1 nginx: " + combined, "combined behind a prefix", "before the client", agent},
		{"container runtime", "2000-10-10T20:55:36.1Z stdout F " + common, "common behind a prefix", "before the client", base},
		{"ALB", `h2 2000-10-10T20:55:36.186641Z app/lb/50dc6c495c0c9188 192.0.2.1:2817 10.0.0.1:80 0.000 0.001 0.000 200 200 34 5 "GET / HTTP/1.1" "agent" ECDHE TLSv1.2 arn:x "Root=1" "-" "-" 0`,
			"AWS application load balancer", "", with(func(s *seen) { s.Agent, s.Port, s.Time = "agent", 2817, "2000-10-10T20:55:36.186641Z" })},
		{"Envoy", `[2000-10-10T20:55:36.310Z] "GET / HTTP/2" 200 - 0 5 12 11 "192.0.2.1" "agent" "cc21" "www.example.com" "tcp://10.0.2.1:80"`,
			"Envoy", "", with(func(s *seen) {
				s.Client, s.Forwarded, s.Agent, s.Time, s.Protocol, s.VHost = "", "192.0.2.1", "agent", "2000-10-10T20:55:36.31Z", "HTTP/2", "www.example.com"
			})},
		{"HAProxy", `<134>Oct 10 13:55:37 lb haproxy[14389]: 192.0.2.1:33317 [10/Oct/2000:20:55:36.655] http-in static/srv1 10/0/30/69/109 200 5 - - ---- 1/1/1/1/0 0/0 {} {} "GET / HTTP/1.1"`,
			"HAProxy behind a prefix", "before the client", seen{Client: "192.0.2.1", Port: 33317, Time: "2000-10-10T20:55:36.655Z", Status: 200, Bytes: int64(5)}},
		{"IIS", "#Software: Microsoft Internet Information Services 10.0\n#Fields: date time s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip cs(User-Agent) sc-status time-taken\n" +
			"2000-10-10 20:55:36 10.0.0.1 GET / - 80 - 192.0.2.1 agent 200 15", "W3C extended", "", seen{Client: "192.0.2.1", Time: utc, Method: "GET", Path: "/", Status: 200, Duration: "15ms", Agent: "agent"}},
		{"CloudFront", "#Version: 1.0\n#Fields: date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status x-forwarded-for time-taken\n" +
			"2000-10-10\t20:55:36\tLAX1\t5\t192.0.2.1\tGET\td111.example\t/\t200\t-\t0.125", "W3C extended", "",
			seen{Client: "192.0.2.1", Time: utc, Method: "GET", Path: "/", Status: 200, Bytes: int64(5), VHost: "d111.example", Duration: "125ms"}},
		{"JSON", `{"ip":"192.0.2.1","time":"10/Oct/2000:13:55:36 -0700","request":"GET / HTTP/1.1","status":"200","bytes":5}`, "json", "", base},
		{"JSON without a time", `{"ip":"192.0.2.1","request":"GET / HTTP/1.1","status":"200","bytes":5}`, "json", "a time", with(func(s *seen) { s.Time = "" })},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			// Thrice, and a broken line, which a reader counts.
			head, last := "", tt.line
			if i := strings.LastIndexByte(tt.line, '\n'); i >= 0 {
				head, last = tt.line[:i+1], tt.line[i+1:]
			}
			log := head + strings.Repeat(last+"\n", 3) + "rubbish\n"
			r := NewReader(t.Context(), Options{}, text("log", log))
			defer r.Close()
			n := 0
			for rec, err := range r.All() {
				if err != nil {
					t.Fatal(err)
				}
				n++
				if d := cmp.Diff(tt.want, look(r.Format(), rec)); d != "" {
					t.Fatalf("record (-want +got):\n%s", d)
				}
			}
			if n != 3 || r.Stats().BrokenLines() != 1 {
				t.Errorf("%d records, broken %v", n, r.Stats().Broken)
			}
			if len(r.Stats().Formats) != 1 {
				t.Fatalf("formats %v", r.Stats().Formats)
			}
			d := r.Stats().Formats[0]
			if d.Format.Name() != tt.format || d.Lines != 4 || d.Fit != 3 || d.Sure != Guess {
				t.Errorf("detected %v, want %s", d, tt.format)
			}
			if notes := strings.Join(d.Notes, "; "); (notes == "") != (tt.note == "") || !strings.Contains(notes, tt.note) {
				t.Errorf("notes %q, want %q", notes, tt.note)
			}
		})
	}
}

func TestDetectionIsAsSureAsItCanBe(t *testing.T) {
	line := `192.0.2.1 - - ` + stamp + ` "GET / HTTP/1.1" 200 5`
	tests := []struct {
		name string
		log  string
		want Sureness
		text string
	}{
		{"one line", line, Likely, "common, likely: 1 of 1 lines fit"},
		{"three", strings.Repeat(line+"\n", 3), Certain, "common, certain: 3 of 3 lines fit"},
		{"one in twenty-five broken", strings.Repeat(line+"\n", 24) + "x\n", Likely, "common, likely: 24 of 25 lines fit"},
		{"half", strings.Repeat(line+"\nx\n", 3), Guess, "common, a guess: 3 of 6 lines fit"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d, err := Detect(splitSample([]byte(tt.log), true), CompileOptions{})
			if err != nil || d.Sure != tt.want || d.String() != tt.text {
				t.Errorf("%v, %v; want %s", d, err, tt.text)
			}
		})
	}
}

// A log that changes its format from one file to the next is read all the
// same, and small rotated files do not change it.
func TestEachFileHasItsFormat(t *testing.T) {
	r := NewReader(t.Context(), Options{}, text("a.1", combinedLog(5)), text("a.2", ""), text("a.3", combinedLine("192.0.2.77", 9)),
		text("a.4", `{"ip":"192.0.2.99","status":200}`+"\n"))
	got := drain(t, r)
	if len(got) != 7 || got[5] != "192.0.2.77" || got[6] != "192.0.2.99" {
		t.Errorf("clients %v", got)
	}
	var names []string
	for _, d := range r.Stats().Formats {
		names = append(names, d.Format.Name())
	}
	if d := cmp.Diff([]string{"combined", "json"}, names); d != "" {
		t.Errorf("formats (-want +got):\n%s", d)
	}
}

func TestFieldsDeclaredAnew(t *testing.T) {
	r := NewReader(t.Context(), Options{}, text("iis", "#Fields: date time c-ip sc-status\n2000-10-10 20:55:36 192.0.2.1 200\n"+
		"#Fields: date time s-ip c-ip sc-status\n2000-10-10 20:55:36 10.0.0.1 192.0.2.2 200\n"))
	if d := cmp.Diff([]string{"192.0.2.1", "192.0.2.2"}, drain(t, r)); d != "" {
		t.Errorf("clients (-want +got):\n%s", d)
	}
}
