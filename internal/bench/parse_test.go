package main

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// What the peers print, as they printed it.
func TestParse(t *testing.T) {
	a := func(s string) []netip.Addr { return []netip.Addr{netip.MustParseAddr(s)} }
	us := func(n ...int) (ds []time.Duration) {
		for _, v := range n {
			ds = append(ds, time.Duration(v)*time.Microsecond)
		}
		return ds
	}
	tests := []struct {
		name  string
		parse parser
		in    string
		want  []hop
	}{
		{"traceroute", parseLines, `traceroute to 203.0.113.80 (203.0.113.80), 30 hops max, 60 byte packets
 1  * * *
 2  198.51.100.2  10.978 ms  11.000 ms  10.941 ms
 3  203.0.113.80  22.022 ms * 21.957 ms
`, []hop{{1, nil, nil}, {2, a("198.51.100.2"), us(10978, 11000, 10941)}, {3, a("203.0.113.80"), us(22022, 21957)}}},
		{"traceroute over several paths", parseLines, ` 1  198.51.100.2  1.000 ms 198.51.100.3  2.000 ms
`, []hop{{1, []netip.Addr{a("198.51.100.2")[0], a("198.51.100.3")[0]}, us(1000, 2000)}}},
		{"traceroute --mtu", parseLines, ` 1  198.51.100.1  F=1500 5.100 ms
 2  198.51.100.2  F=1400 10.100 ms
`, []hop{{1, a("198.51.100.1"), us(5100)}, {2, a("198.51.100.2"), us(10100)}}},
		{"tracepath", parseLines, ` 1?: [LOCALHOST]                      pmtu 1500
 1:  no reply
 2:  198.51.100.2                                         10.481ms 
 3:  198.51.100.2                                         10.280ms pmtu 1400
 3:  198.51.100.3                                         15.415ms 
 4:  203.0.113.80                                         20.519ms reached
     Resume: pmtu 1400 hops 4 back 4 
`, []hop{{1, nil, nil}, {2, a("198.51.100.2"), us(10481)},
			{3, []netip.Addr{a("198.51.100.2")[0], a("198.51.100.3")[0]}, us(10280, 15415)}, {4, a("203.0.113.80"), us(20519)}}},
		{"tracepath -6", parseLines, ` 1:  2001:db8:1::1                                         5.181ms 
`, []hop{{1, a("2001:db8:1::1"), us(5181)}}},
		{"scamper", parseLines, `traceroute from 192.0.2.10 to 203.0.113.80
 1  *
 2  198.51.100.2  10.236 ms
 3  203.0.113.80  15.093 ms [mtu: 1400]
`, []hop{{1, nil, nil}, {2, a("198.51.100.2"), us(10236)}, {3, a("203.0.113.80"), us(15093)}}},
		{"tcptraceroute", parseLines, ` 1  *
 4  203.0.113.80 [open]  20.076 ms
`, []hop{{1, nil, nil}, {4, a("203.0.113.80"), us(20076)}}},
		{"mtr report", parseMTRReport, `Start: 2026-12-01T04:58:50+0000
HOST: host                        Loss%   Snt   Last   Avg  Best  Wrst StDev
  1.|-- ???                       100.0     1    0.0   0.0   0.0   0.0   0.0
  2.|-- 198.51.100.2               0.0%     1   10.2  10.2  10.2  10.2   0.0
`, []hop{{1, nil, nil}, {2, a("198.51.100.2"), nil}}},
		{"mtr raw", parseMTRRaw, "x 0 33000\nh 0 198.51.100.1\nh 0 198.51.100.1\np 0 10179 33001\np 0 10203 33007\nx 1 33002\n",
			[]hop{{1, a("198.51.100.1"), us(10179, 10203)}}},
		{"ours", parseOurs, `Path  203.0.113.80 · icmp · reached at hop 4 · 4 hops back · ms
  hop  address         loss   min  median   max
    1  *             silent
    2  198.51.100.2     0 %  10.1    10.1  10.1
       198.51.100.7     0 %  10.1    10.1  10.1
    3  203.0.113.80     0 %  20.4    20.4  20.4
  R1 the largest step is 10.1 ms on the way from this host to hop 2
     49 % of the way to (198.51.100.2)
`, []hop{{1, nil, nil}, {2, []netip.Addr{a("198.51.100.2")[0], a("198.51.100.7")[0]}, nil}, {3, a("203.0.113.80"), nil}}},
		{"ours as JSON", parseOurJSON, `{"schema":"whyslow/trace/1","hops":[{"ttl":1,"silent":true,"replies":[]},
			{"ttl":2,"replies":[{"addr":"198.51.100.2","min_ms":10.108,"rtts_ms":[10.108,10.25]}]}]}`,
			[]hop{{1, nil, nil}, {2, a("198.51.100.2"), us(10108, 10250)}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := tt.parse(tt.in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, p.hops, cmp.AllowUnexported(hop{}), cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
				cmp.Comparer(func(a, b time.Duration) bool { return (a - b).Abs() < time.Microsecond })); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	for _, parse := range []parser{parseLines, parseMTRReport, parseMTRRaw, parseOurs, parseOurJSON} {
		if _, err := parse("nothing of the kind\n"); err == nil {
			t.Error("a path was read from nothing")
		}
	}
}
